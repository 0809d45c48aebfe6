import { useState } from 'react'
import { Link } from 'react-router'
import { $api, answerOf, api } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { useRefresh } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Icon } from '../../ui/icons.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { Section } from '../../ui/section.tsx'
import { Ago } from '../../ui/time.tsx'
import { ExpiryOf, nameOf } from '../certificates/certificate.tsx'
import type { Domain } from './domain.tsx'
import { adviceFor, OrderState, orderOf } from './management.tsx'

export function CertificateOf({ domain, onChange }: { domain: Domain; onChange: () => void }) {
  const mayChange = useMayChange()
  // Polled, because orders and renewals replace certificates.
  const used = $api.useQuery(
    'get',
    '/tls_certificates/{id}',
    { params: { path: { id: domain.certificate?.id ?? '' } } },
    { enabled: domain.certificate !== null, refetchInterval: 10_000 },
  ).data
  const { certificate_management_policy: policy, certificate_management_status: status } = domain
  return (
    <Section title="Certificate" action={mayChange && <Button onPress={onChange}>Change certificate</Button>}>
      {!policy && !domain.certificate ? (
        <p>
          None of this account. HTTPS clients reach names under {domain.domain} only if the operator of the nodes has a
          certificate for them.
        </p>
      ) : (
        <dl className="facts">
          <dt>Management</dt>
          <dd>
            {policy
              ? `Ordered and renewed automatically, ${policy.private_key_type === 'rsa' ? 'RSA 2048' : 'ECDSA P-256'}`
              : 'Uploaded: you renew it yourself'}
          </dd>
          {policy && (
            <>
              <dt>Status</dt>
              <dd>
                <OrderState domain={domain} />
              </dd>
            </>
          )}
          {domain.certificate && (
            <>
              <dt>Certificate</dt>
              <dd>
                <Link to={`/certificates/${domain.certificate.id}`}>{used ? nameOf(used) : domain.certificate.id}</Link>
              </dd>
            </>
          )}
          {used && (
            <>
              <dt>Expires</dt>
              <dd>
                <ExpiryOf certificate={used} />
              </dd>
              <dt>For</dt>
              <dd className="mono">{used.subject_alternative_names.dns_names.join(', ')}</dd>
            </>
          )}
          {status?.renews_at && (
            <>
              <dt>Renews</dt>
              <dd>
                <Ago at={status.renews_at} />
              </dd>
            </>
          )}
          {status?.provisioning_job?.error_code && (
            <>
              <dt>Next attempt</dt>
              <dd>
                <Ago at={status.provisioning_job.retries_at} />
              </dd>
            </>
          )}
        </dl>
      )}
      <OrderProblem domain={domain} />
    </Section>
  )
}

/** Why there is no certificate, or no newer one, and what to do. */
function OrderProblem({ domain }: { domain: Domain }) {
  const job = domain.certificate_management_status?.provisioning_job
  const policy = domain.certificate_management_policy
  const mayChange = useMayChange()
  const refresh = useRefresh()
  const [isAsking, setAsking] = useState(false)
  const [problem, setProblem] = useState<unknown>()
  if (!job?.error_code || !policy) return null
  const tryAgain = async () => {
    setAsking(true)
    setProblem(undefined)
    const change = { params: { path: { id: domain.id } }, body: { certificate_management_policy: policy } }
    await answerOf(api.PATCH('/reserved_domains/{id}', change)).catch(setProblem)
    await refresh('/reserved_domains')
    setAsking(false)
  }
  return (
    <>
      <div className="note warned" role="status">
        <Icon name="warned" />
        <div>
          <p className="strong">{job.msg}</p>
          <p>{adviceFor(job.error_code)}</p>
          <p className="fine mono">{job.error_code}</p>
        </div>
      </div>
      {mayChange && orderOf(domain)?.isFailed && (
        <div className="actions start">
          <Button isPending={isAsking} onPress={tryAgain}>
            Try again
          </Button>
        </div>
      )}
      {problem !== undefined && <ProblemNote error={problem} />}
    </>
  )
}
