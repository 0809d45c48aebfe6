import { createPrivateKey, X509Certificate } from 'node:crypto'
import { transaction } from '../db/transaction.ts'
import { CertificateFault, checkCertificate, coversName, dnsNames } from '../kernel/crypto/certificate.ts'
import { toId } from '../kernel/ids.ts'
import { isHeld } from '../resources/reserved_domains/store.ts'
import { findTlsCertificate, type TlsCertificateRow } from '../resources/tls_certificates/store.ts'
import { accountKeyOf } from './account_key.ts'
import { type AcmeClient, createAcmeClient } from './client.ts'
import { certificateIdOf } from './csr.ts'
import { type IssueParts, issue, newPrivateKey } from './issue.ts'
import {
  type Ending,
  endLease,
  extendLease,
  giveLeaseBack,
  type LeasedOrder,
  LeaseLost,
  leaseOrder,
  namesToCertify,
} from './order_leases.ts'
import { AcmeProblem, Unmet } from './problems.ts'
import { backOffMs, leastPauseMs, nextLook, pickedFrom, renewalOf, spacingMs, unmetEveryMs } from './schedule.ts'
import { recordFailure, storeIssued } from './store_issued.ts'
import { unverified } from './wanted.ts'

export type AcmeParts = Omit<IssueParts, 'client'> & { random: () => number }

/** Lease duration. Another process takes over after a crash; a working one renews it. */
const leaseSeconds = 60
/** Public authorities limit a certificate to this many names. */
const maxNames = 100

type Failure = { code: string; message: string; cause?: unknown }
/** `unmet`: a precondition is missing; nothing has failed. */
export type Outcome = { domain: string; issued: boolean; error?: Failure; unmet?: Failure }

/** Works on the next due order. Resolves to undefined if there is none. */
export async function workOnOrder(parts: AcmeParts): Promise<Outcome | undefined> {
  const leased = await leaseOrder(parts.db, parts.clock(), leaseSeconds)
  if (!leased) return undefined
  const lost = new AbortController()
  const beat = setInterval(() => {
    void extendLease(parts.db, leased, leaseSeconds).then(
      (isOurs) => isOurs || lost.abort(new LeaseLost(`another process works on ${leased.domain}`)),
      // The database is unavailable. Writing the result checks the lease again.
      () => {},
    )
  }, leaseSeconds * 250)
  try {
    return await attempt({ ...parts, signal: AbortSignal.any([parts.signal, lost.signal]) }, leased)
  } catch (error) {
    if (error instanceof LeaseLost) return { domain: leased.domain, issued: false }
    if (!parts.signal.aborted) throw error
    await giveLeaseBack(parts.db, leased)
    return { domain: leased.domain, issued: false }
  } finally {
    clearInterval(beat)
  }
}

async function attempt(parts: AcmeParts, leased: LeasedOrder): Promise<Outcome> {
  const { domain } = leased
  try {
    const { ending, issued } = await provide(parts, leased)
    await endLease(parts.db, leased, ending)
    return { domain, issued }
  } catch (error) {
    if (error instanceof LeaseLost || parts.signal.aborted) throw parts.signal.aborted ? parts.signal.reason : error
    const failure = failureOf(error)
    await transaction(parts.db, async (tx) => {
      if (failure.code !== leased.error_code) await recordFailure(tx, leased, failure)
      await endLease(tx, leased, endingOf(parts, leased, error, failure))
    })
    return { domain, issued: false, ...(error instanceof Unmet ? { unmet: failure } : { error: failure }) }
  }
}

function endingOf({ clock, random }: AcmeParts, leased: LeasedOrder, error: unknown, failure: Failure): Ending {
  const now = clock()
  const { failures, issued_by: issuedBy } = leased
  const renewsAt = leased.renews_at === null ? null : Date.parse(leased.renews_at)
  const kept = { renewsAt, issuedBy, error: failure }
  if (error instanceof Unmet) {
    const { retryAt } = error
    // Waiting for its turn does not reset the failure count.
    return {
      ...kept,
      nextAttemptAt: retryAt ?? now + unmetEveryMs,
      failures: retryAt === undefined ? 0 : failures,
      heldBackUntil: null,
    }
  }
  return {
    ...kept,
    nextAttemptAt: now + backOffMs(error, failures, random),
    failures: failures + 1,
    heldBackUntil: now + leastPauseMs(error),
  }
}

/** The account sees this; details of internal errors go to the log only. */
function failureOf(error: unknown): Failure {
  if (error instanceof Unmet) return { code: error.code, message: error.message }
  if (error instanceof AcmeProblem) return { code: error.type, message: error.message, cause: error.cause }
  if (error instanceof CertificateFault)
    return { code: 'unusable', message: `the authority issued a certificate that ${error.message}` }
  return { code: 'internal', message: 'this installation failed to order it. Its log says why', cause: error }
}

async function provide(parts: AcmeParts, leased: LeasedOrder): Promise<{ ending: Ending; issued: boolean }> {
  const { db, clock, settings } = parts
  const names = await namesOfOrder(parts, leased)
  const client = await openClient(parts)
  const present = leased.certificate_id
    ? await findTlsCertificate(db, { accountId: leased.account_id }, toId('cert', leased.certificate_id), false)
    : undefined
  const own = present?.source === 'acme' ? present : undefined
  if (own && !leased.order_url && leased.issued_by === settings.directoryUrl && isFor(own, names)) {
    const ending = await endingWith(parts, client, leased, own)
    if (clock() < (ending.renewsAt ?? 0)) return { ending, issued: false }
  }
  const replaces = own && leased.issued_by === settings.directoryUrl ? certificateIdOf(own.certificate_pem) : undefined
  const { chain, key } = await issue({ ...parts, client }, leased, names, replaces)
  const checked = checkCertificate(chain, key, clock())
  if (!names.every((name) => coversName(dnsNames(checked.leaf), name)))
    throw new AcmeProblem('unusable', 'the authority issued a certificate for other names')
  const stored = await storeIssued(parts, leased, own, checked)
  const ending = await endingWith(parts, client, { ...leased, renews_at: null }, stored)
  const soonest = clock() + spacingMs(Date.parse(stored.not_before), Date.parse(stored.not_after))
  const nextAttemptAt = Math.max(ending.nextAttemptAt, soonest)
  return { ending: { ...ending, nextAttemptAt, heldBackUntil: clock() + leastPauseMs(undefined) }, issued: true }
}

async function namesOfOrder({ db, settings }: AcmeParts, leased: LeasedOrder): Promise<string[]> {
  const { domain, status } = leased
  if (!isHeld(status)) throw unverified(domain)
  const names = await namesToCertify(db, leased)
  if (names.length === 0)
    throw new Unmet('no_hostports', `no HTTPS edge serves a name under ${domain}. Add a hostport to an edge first`)
  if (names.length > maxNames)
    throw new Unmet(
      'too_many_names',
      `edges serve ${names.length} names under ${domain}, and a certificate can have ${maxNames}. Use a wildcard hostport, or reserve a domain below it`,
    )
  const wildcard = names.find((name) => name.startsWith('*.'))
  if (wildcard && !settings.dnsHook)
    throw new Unmet(
      'wildcard',
      `${wildcard} can only be validated with DNS, for which the operator has to set GATEHOUSE_ACME_DNS_HOOK`,
    )
  return names
}

async function openClient({ db, box, settings, clock, signal }: AcmeParts): Promise<AcmeClient> {
  const { directoryUrl, ca } = settings
  const key = await accountKeyOf(db, directoryUrl, box, () => newPrivateKey('ecdsa'))
  return createAcmeClient({ directoryUrl, ca, accountKey: createPrivateKey(key), clock, signal })
}

const isFor = ({ certificate_pem }: TlsCertificateRow, names: readonly string[]): boolean => {
  const covered = dnsNames(new X509Certificate(certificate_pem))
  return names.every((name) => coversName(covered, name))
}

/** Schedules the renewal of an existing certificate. An authority that is unreachable now must not bring it forward. */
async function endingWith(
  { random, clock, settings }: AcmeParts,
  client: AcmeClient,
  { renews_at }: LeasedOrder,
  certificate: TlsCertificateRow,
): Promise<Ending> {
  const id = certificateIdOf(certificate.certificate_pem)
  const suggested = id ? await client.renewalInfo(id).catch(() => undefined) : undefined
  const usual = renewalOf(Date.parse(certificate.not_before), Date.parse(certificate.not_after))
  const renewsAt = suggested ? pickedFrom(suggested, renews_at ? Date.parse(renews_at) : null, random) : usual
  return {
    renewsAt,
    nextAttemptAt: nextLook(clock(), renewsAt, suggested?.retryAfterMs),
    issuedBy: settings.directoryUrl,
    failures: 0,
    error: null,
    heldBackUntil: null,
  }
}
