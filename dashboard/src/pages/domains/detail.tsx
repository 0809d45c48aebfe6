import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useNavigate } from 'react-router'
import { $api, answerOf, api, type Shapes } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { CopyId } from '../../ui/copy_id.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { PageMenu } from '../../ui/more_menu.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { Section } from '../../ui/section.tsx'
import { StatusState } from '../../ui/status.tsx'
import { StatusNote } from '../../ui/status_note.tsx'
import { Ago } from '../../ui/time.tsx'
import { Unread } from '../../ui/unread.ts'
import { History } from '../audit/history.tsx'
import { CertificateOf } from './certificate_section.tsx'
import { ChooseCertificate } from './choose_certificate.tsx'
import { type Domain, isHeld, wordsOf } from './domain.tsx'
import { DeleteDomain } from './forms.tsx'

export function DomainDetail({ id }: { id: string }) {
  const path = { params: { path: { id } } }
  const domain = $api.useQuery('get', '/reserved_domains/{id}', path, { refetchInterval: 10_000 })
  const [open, setOpen] = useState<'certificate' | 'delete'>()
  const navigate = useNavigate()
  const close = () => setOpen(undefined)
  const { data } = domain
  return (
    <Unread value={domain.isError}>
      <PageHeader
        title={data?.domain ?? id}
        parent={{ to: '/domains', name: 'Domains' }}
        status={data && <StatusState status={data.status}>{wordsOf(data)}</StatusState>}
        meta={
          <>
            {data?.description && <span>{data.description}</span>}
            <CopyId id={id} />
          </>
        }
      >
        <PageMenu
          groups={() => [
            {
              entries: [
                { label: 'Change certificate…', icon: 'edit', onAction: () => setOpen('certificate') },
                { label: 'Delete domain…', icon: 'trash', isDanger: true, onAction: () => setOpen('delete') },
              ],
            },
          ]}
        />
      </PageHeader>
      <Loaded query={domain} lines={6}>
        {(shown) => (
          <>
            {/* The next section explains what to do about it. */}
            {shown.status?.code !== 'domain_unverified' && <StatusNote status={shown.status} />}
            <Ownership domain={shown} />
            <CertificateOf domain={shown} onChange={() => setOpen('certificate')} />
            <NamesUnder domain={shown} />
            <History resourceId={id} />
          </>
        )}
      </Loaded>
      {open === 'certificate' && data && <ChooseCertificate domain={data} onClose={close} />}
      {open === 'delete' && data && (
        <DeleteDomain domain={data} onClose={close} onDeleted={() => void navigate('/domains')} />
      )}
    </Unread>
  )
}

/** The required DNS record, and the result of the last check. */
function Ownership({ domain }: { domain: Domain }) {
  const { verification } = domain
  const mayChange = useMayChange()
  const refresh = useRefresh()
  const [isAsking, setAsking] = useState(false)
  const [problem, setProblem] = useState<unknown>()
  const verify = async () => {
    setAsking(true)
    setProblem(undefined)
    await answerOf(api.POST('/reserved_domains/{id}/verify', { params: { path: { id: domain.id } }, body: {} })).catch(
      setProblem,
    )
    await refresh('/reserved_domains')
    setAsking(false)
  }
  if (verification.status === 'assigned')
    return (
      <Section title="Ownership">
        <p>The operator of this installation assigned the domain. It needs no DNS record.</p>
      </Section>
    )
  return (
    <Section
      title="Ownership"
      action={
        mayChange && (
          <Button kind={isHeld(domain) ? undefined : 'primary'} isPending={isAsking} onPress={verify}>
            Verify now
          </Button>
        )
      }
    >
      <p>
        {isHeld(domain)
          ? 'Leave this TXT record in DNS: it is checked every day.'
          : 'Publish this TXT record with the DNS provider of the domain, then verify.'}
      </p>
      <dl className="facts">
        <dt>Name</dt>
        <dd className="mono">{verification.name}</dd>
        <dt>Type</dt>
        <dd className="mono">TXT</dd>
        <dt>Value</dt>
        <dd className="mono">{verification.value}</dd>
        <dt>Last checked</dt>
        <dd>{verification.checked_at ? <Ago at={verification.checked_at} /> : 'Never'}</dd>
      </dl>
      <div className="actions start">
        <CopyButton text={verification.name} what="name" />
        <CopyButton text={verification.value} what="value" />
      </div>
      {verification.error && (
        <p className="note warned" role="status">
          {verification.error}
        </p>
      )}
      {problem !== undefined && <ProblemNote error={problem} />}
    </Section>
  )
}

function NamesUnder({ domain: { domain } }: { domain: Domain }) {
  const edges = useQuery(queries.httpsEdges()).data
  const isUnder = (hostport: string) => {
    const name = hostport.replace(/:\d+$/, '').replace(/^\*\./, '')
    return name === domain || name.endsWith(`.${domain}`)
  }
  const uses = (edges ?? []).flatMap(({ id, hostports }: Shapes['HttpsEdge']) =>
    hostports.filter(isUnder).map((hostport) => ({ id, hostport })),
  )
  return (
    <Section title="Used by" note={uses.length || undefined}>
      {uses.length === 0 ? (
        <p>No HTTPS edge has a name under this domain.</p>
      ) : (
        <ul className="plain-list">
          {uses.map(({ id, hostport }) => (
            <li key={hostport}>
              <Link className="mono" to={`/edges/${id}`}>
                {hostport}
              </Link>
            </li>
          ))}
        </ul>
      )}
    </Section>
  )
}
