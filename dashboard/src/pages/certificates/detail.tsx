import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useNavigate } from 'react-router'
import { $api } from '../../api/client.ts'
import { queries, statusOfOneEveryMs } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { CopyId } from '../../ui/copy_id.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { PageMenu } from '../../ui/more_menu.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { Section } from '../../ui/section.tsx'
import { StatusNote } from '../../ui/status_note.tsx'
import { Unread } from '../../ui/unread.ts'
import { History } from '../audit/history.tsx'
import { type Certificate, ExpiryOf, nameOf } from './certificate.tsx'
import { DeleteCertificate, ReplaceCertificate } from './forms.tsx'

export function CertificateDetail({ id }: { id: string }) {
  const certificate = $api.useQuery(
    'get',
    '/tls_certificates/{id}',
    { params: { path: { id } } },
    { refetchInterval: statusOfOneEveryMs },
  )
  const [open, setOpen] = useState<'replace' | 'delete'>()
  const navigate = useNavigate()
  const close = () => setOpen(undefined)
  const { data } = certificate
  return (
    <Unread value={certificate.isError}>
      <PageHeader
        title={data ? nameOf(data) : id}
        parent={{ to: '/certificates', name: 'Certificates' }}
        status={data && <ExpiryOf certificate={data} />}
        meta={<CopyId id={id} />}
      >
        <Button kind="primary" onPress={() => setOpen('replace')}>
          Replace
        </Button>
        <PageMenu
          groups={() => [
            {
              entries: [
                { label: 'Delete certificate…', icon: 'trash', isDanger: true, onAction: () => setOpen('delete') },
              ],
            },
          ]}
        />
      </PageHeader>
      <Loaded query={certificate} lines={6}>
        {(shown) => (
          <>
            <StatusNote status={shown.status} />
            <Facts certificate={shown} />
            <UsedBy certificate={shown} />
            <History resourceId={id} />
          </>
        )}
      </Loaded>
      {open === 'replace' && data && <ReplaceCertificate certificate={data} onClose={close} />}
      {open === 'delete' && data && (
        <DeleteCertificate certificate={data} onClose={close} onDeleted={() => void navigate('/certificates')} />
      )}
    </Unread>
  )
}

const time = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })

function Facts({ certificate }: { certificate: Certificate }) {
  const { subject_alternative_names: names, not_before, not_after, issuer_common_name, private_key_type } = certificate
  return (
    <Section title="Certificate">
      <dl className="facts">
        <dt>For</dt>
        <dd className="mono">{[...names.dns_names, ...names.ips].join(', ')}</dd>
        <dt>Valid</dt>
        <dd>
          {time.format(new Date(not_before))} to {time.format(new Date(not_after))} UTC
        </dd>
        <dt>Issuer</dt>
        <dd>{issuer_common_name ?? 'Unnamed'}</dd>
        <dt>Private key</dt>
        <dd>{private_key_type === 'rsa' ? 'RSA' : 'ECDSA'}, stored encrypted</dd>
        <dt>Serial number</dt>
        <dd className="mono">{certificate.serial_number}</dd>
        <dt>Source</dt>
        <dd>{certificate.source === 'acme' ? 'Ordered by this installation' : 'Uploaded'}</dd>
      </dl>
    </Section>
  )
}

function UsedBy({ certificate: { in_use_by } }: { certificate: Certificate }) {
  const domains = useQuery(queries.domains()).data
  return (
    <Section title="Used by" note={in_use_by.length || undefined}>
      {in_use_by.length === 0 ? (
        <p>
          Nothing. Choose it on the page of a <Link to="/domains">domain</Link>, and edge nodes serve it for the names
          of that domain.
        </p>
      ) : (
        <ul className="plain-list">
          {in_use_by.map(({ id }) => (
            <li key={id}>
              <Link to={`/domains/${id}`}>{domains?.find((each) => each.id === id)?.domain ?? id}</Link>
            </li>
          ))}
        </ul>
      )}
    </Section>
  )
}
