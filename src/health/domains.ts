import { because, degraded, down, type Status, unknown, up, worstOf } from './status.ts'

type Job = { readonly error_code: string | null; readonly msg: string | null; readonly started_at: string | null }
export type DomainFacts = {
  readonly verification: {
    readonly status: 'pending' | 'verified' | 'failing' | 'lapsed' | 'assigned'
    readonly name: string
    readonly verified_at: string | null
    readonly lapses_at: string | null
    readonly error: string | null
  }
  readonly certificate_management_status: {
    readonly renews_at: string | null
    readonly provisioning_job: Job | null
  } | null
}
export type CertificateFacts = {
  readonly not_before: string
  readonly not_after: string
  readonly expiry: 'later' | 'soon' | 'expired'
}

/** `certificate`: the one that the domain uses. */
export function domainStatus(domain: DomainFacts, certificate: CertificateFacts | undefined, now: number): Status {
  const held = verificationStatus(domain)
  if (held.state === 'down') return held
  return worstOf(
    ...([certificate && ofCertificate(certificate, now), orderStatus(domain), held].filter(
      (each) => each !== undefined,
    ) as [Status, ...Status[]]),
  )
}

function ofCertificate(certificate: CertificateFacts, now: number): Status {
  const found = validity(certificate, now)
  return { ...found, reason: found.reason.replace(/^It /, 'Its certificate ') }
}

function verificationStatus({ verification }: DomainFacts): Status {
  const { status, name, lapses_at, verified_at } = verification
  const answer = verification.error ? ` The last check says${because(verification.error)}` : ''
  if (status === 'pending')
    return down('domain_unverified', `Its TXT record at ${name} has not been found yet.${answer}`)
  if (status === 'lapsed')
    return down(
      'domain_lapsed',
      `It is no longer verified, because its TXT record was missing for too long.`,
      lapses_at,
    )
  if (status === 'failing')
    return degraded(
      'domain_record_gone',
      `Its TXT record is gone. It lapses at ${lapses_at} unless the record is back.`,
    )
  return up(status === 'assigned' ? 'The operator assigned it to this account.' : 'It is verified.', verified_at)
}

/** An existing certificate stays in use while its renewal fails. */
function orderStatus({ certificate_management_status: management }: DomainFacts): Status | undefined {
  if (!management?.provisioning_job) return undefined
  const { error_code, msg } = management.provisioning_job
  if (!error_code)
    return management.renews_at
      ? undefined
      : unknown('certificate_ordered', 'Its certificate has been ordered and is not there yet.')
  const text = `${management.renews_at ? 'Renewing' : 'Obtaining'} its certificate fails${because(msg ?? error_code)}`
  return management.renews_at ? degraded('certificate_order_failing', text) : down('certificate_order_failing', text)
}

export function validity({ not_before, not_after, expiry }: CertificateFacts, now: number): Status {
  if (expiry === 'expired' || Date.parse(not_after) <= now)
    return down('certificate_expired', 'It has expired, so clients refuse it.', not_after)
  if (Date.parse(not_before) > now)
    return down('certificate_not_valid_yet', `It is not valid before ${not_before}, so clients refuse it.`)
  if (expiry === 'soon') return degraded('certificate_expiring', `It expires at ${not_after}.`)
  return up(`It is valid until ${not_after}.`, not_before)
}
