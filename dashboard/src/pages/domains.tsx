import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { Link, useParams } from 'react-router'
import { queries } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { DataTable } from '../ui/data_table.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Empty } from '../ui/states.tsx'
import { faultsIn, rankOf, StatusCell } from '../ui/status.tsx'
import type { Column } from '../ui/table_model.ts'
import { Toolbar } from '../ui/toolbar.tsx'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { useUrlState } from '../ui/use_url_state.ts'
import { type Certificate, ExpiryOf, nameOf } from './certificates/certificate.tsx'
import { DomainDetail } from './domains/detail.tsx'
import { type Domain, isHeld, wordsOf } from './domains/domain.tsx'
import { ReserveDomain } from './domains/forms.tsx'
import { OrderState, orderOf } from './domains/management.tsx'

export function Domains() {
  const { id } = useParams()
  return id ? <DomainDetail key={id} id={id} /> : <DomainList />
}

function DomainList() {
  const domains = useQuery(queries.domains())
  const certificates = useQuery(queries.certificates()).data
  const [isCreating, setCreating] = useState(false)
  useOpenOnArrival(() => setCreating(true))
  return (
    <>
      <PageHeader title="Domains" summary={domains.data && !domains.isError && summaryOf(domains.data)}>
        <Button kind="primary" icon="plus" onPress={() => setCreating(true)}>
          Reserve domain
        </Button>
      </PageHeader>
      <Loaded query={domains} lines={4}>
        {(rows) => <DomainTable domains={rows} certificates={certificates} onCreate={() => setCreating(true)} />}
      </Loaded>
      {isCreating && <ReserveDomain onClose={() => setCreating(false)} />}
    </>
  )
}

type TableProps = {
  domains: readonly Domain[]
  certificates: readonly Certificate[] | undefined
  onCreate: () => void
}

function DomainTable({ domains, certificates, onCreate }: TableProps) {
  const [search, setSearch] = useUrlState<string>('search', '')
  const columns = useMemo(() => domainColumns(certificates), [certificates])
  if (domains.length === 0)
    return (
      <div className="frame">
        <Empty
          title="No domains yet"
          actions={
            <Button icon="plus" onPress={onCreate}>
              Reserve your first domain
            </Button>
          }
        >
          Prove that a domain is yours, and HTTPS edges can serve every name under it.
        </Empty>
      </div>
    )
  const wanted = search.trim().toLowerCase()
  const found = domains.filter(({ domain, description = '', id }) =>
    `${domain} ${description} ${id}`.toLowerCase().includes(wanted),
  )
  return (
    <>
      <Toolbar search={search} onSearch={setSearch} placeholder="Domain, description or ID" />
      {found.length === 0 ? (
        <div className="frame">
          <Empty title="No matching domains">Nothing matches “{search}”.</Empty>
        </div>
      ) : (
        <DataTable
          label="Domains"
          rows={found}
          keyOf={({ id }) => id}
          columns={columns}
          initialSort="Domain"
          isTwoLine
        />
      )}
    </>
  )
}

const domainColumns = (certificates: readonly Certificate[] = []): Column<Domain>[] => {
  const byId = new Map(certificates.map((each) => [each.id, each]))
  return [
    {
      title: 'Domain',
      className: 'a1',
      width: '36%',
      isRowHead: true,
      sortBy: ({ domain }) => domain,
      cell: ({ id, domain, description }) => (
        <span className="two">
          <Link className="row-link" to={`/domains/${id}`}>
            {domain}
          </Link>
          {description && <small className="hide-small">{description}</small>}
        </span>
      ),
    },
    {
      title: 'State',
      className: 'a2',
      sortBy: ({ status }) => rankOf(status),
      cell: (domain) => <StatusCell status={domain.status}>{wordsOf(domain)}</StatusCell>,
    },
    {
      title: 'Certificate',
      className: 'b1',
      sortBy: ({ certificate }) => nameIn(byId, certificate?.id),
      cell: (domain) => (
        <span className="two">
          {domain.certificate ? (
            <Link className="quiet-link" to={`/certificates/${domain.certificate.id}`}>
              {nameIn(byId, domain.certificate.id)}
            </Link>
          ) : (
            <span className="soft">None</span>
          )}
          {domain.certificate_management_policy && (
            <small>
              <OrderState domain={domain} showRenewal />
            </small>
          )}
        </span>
      ),
    },
    {
      title: 'Expires',
      className: 'b2',
      sortBy: ({ certificate }) => Date.parse(byId.get(certificate?.id ?? '')?.not_after ?? '') || 0,
      cell: ({ certificate }) => {
        const used = byId.get(certificate?.id ?? '')
        return used ? <ExpiryOf certificate={used} /> : <span className="soft">–</span>
      },
    },
  ]
}

const nameIn = (byId: ReadonlyMap<string, Certificate>, id = ''): string => {
  const found = byId.get(id)
  return found ? nameOf(found) : id
}

function summaryOf(domains: readonly Domain[]): string {
  if (domains.length === 0) return 'An account that proves a domain can use every name under it.'
  const open = domains.filter((domain) => !isHeld(domain)).length
  const failing = domains.filter(({ verification }) => verification.status === 'failing').length
  const failed = domains.filter((domain) => orderOf(domain)?.isFailed).length
  const total = `${domains.length} ${domains.length === 1 ? 'domain' : 'domains'}.`
  const parts = [
    failing && `${failing} ${failing === 1 ? 'has' : 'have'} lost the TXT record`,
    open && `${open} ${open === 1 ? 'is' : 'are'} not verified`,
    failed && `${failed} certificate ${failed === 1 ? 'order' : 'orders'} failed`,
  ].filter(Boolean)
  if (parts.length > 0) return `${total} ${parts.join(', ')}.`
  const faults = faultsIn(domains.map(({ status }) => status))
  return faults ? `${total} ${faults}.` : `${total} All are yours.`
}
