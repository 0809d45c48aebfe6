import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { useParams } from 'react-router'
import { queries } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { DataTable } from '../ui/data_table.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Empty } from '../ui/states.tsx'
import { faultsIn } from '../ui/status.tsx'
import { Toolbar } from '../ui/toolbar.tsx'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { useUrlState } from '../ui/use_url_state.ts'
import { type Certificate, certificateColumns } from './certificates/certificate.tsx'
import { CertificateDetail } from './certificates/detail.tsx'
import { UploadCertificate } from './certificates/forms.tsx'

export function Certificates() {
  const { id } = useParams()
  return id ? <CertificateDetail key={id} id={id} /> : <CertificateList />
}

function CertificateList() {
  const certificates = useQuery(queries.certificates())
  const [isUploading, setUploading] = useState(false)
  useOpenOnArrival(() => setUploading(true))
  return (
    <>
      <PageHeader
        title="Certificates"
        summary={certificates.data && !certificates.isError && summaryOf(certificates.data)}
      >
        <Button kind="primary" icon="plus" onPress={() => setUploading(true)}>
          Upload certificate
        </Button>
      </PageHeader>
      <Loaded query={certificates} lines={4}>
        {(rows) => <CertificateTable certificates={rows} onUpload={() => setUploading(true)} />}
      </Loaded>
      {isUploading && <UploadCertificate onClose={() => setUploading(false)} />}
    </>
  )
}

type Shown = 'all' | 'expiring'
type TableProps = { certificates: readonly Certificate[]; onUpload: () => void }

function CertificateTable({ certificates, onUpload }: TableProps) {
  const [search, setSearch] = useUrlState<string>('search', '')
  const [shown, show] = useUrlState<Shown>('show', 'all')
  const columns = useMemo(certificateColumns, [])
  if (certificates.length === 0)
    return (
      <div className="frame">
        <Empty
          title="No certificates yet"
          actions={
            <Button icon="plus" onPress={onUpload}>
              Upload your first certificate
            </Button>
          }
        >
          Edge nodes serve a certificate for the names of the domains that use it.
        </Empty>
      </div>
    )
  const expiring = certificates.filter(({ expiry }) => expiry !== 'later')
  const wanted = search.trim().toLowerCase()
  const found = (shown === 'expiring' ? expiring : certificates).filter(
    ({ id, description = '', subject_alternative_names: { dns_names } }) =>
      `${description} ${dns_names.join(' ')} ${id}`.toLowerCase().includes(wanted),
  )
  return (
    <>
      <Toolbar
        search={search}
        onSearch={setSearch}
        placeholder="Name, description or ID"
        chips={[
          { value: 'all', label: 'All', count: certificates.length },
          { value: 'expiring', label: 'Expiring', count: expiring.length },
        ]}
        chosen={shown}
        onChoose={show}
      />
      {found.length === 0 ? (
        <div className="frame">
          <Empty title="No matching certificates">No certificate matches the search and the filter.</Empty>
        </div>
      ) : (
        <DataTable
          label="Certificates"
          rows={found}
          keyOf={({ id }) => id}
          columns={columns}
          initialSort="Expires"
          isTwoLine
        />
      )}
    </>
  )
}

function summaryOf(certificates: readonly Certificate[]): string {
  if (certificates.length === 0) return 'Private keys are stored encrypted and never shown again.'
  const expired = certificates.filter(({ expiry }) => expiry === 'expired').length
  const soon = certificates.filter(({ expiry }) => expiry === 'soon').length
  const total = `${certificates.length} ${certificates.length === 1 ? 'certificate' : 'certificates'}.`
  const parts = [
    expired && `${expired} ${expired === 1 ? 'has' : 'have'} expired`,
    soon && `${soon} ${soon === 1 ? 'expires' : 'expire'} soon`,
  ].filter(Boolean)
  if (parts.length > 0) return `${total} ${parts.join(', ')}.`
  const faults = faultsIn(certificates.map(({ status }) => status))
  return faults ? `${total} ${faults}.` : `${total} None expires soon.`
}
