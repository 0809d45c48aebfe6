import {
  type EdgeRecord,
  isExpiringRules,
  isPolicyRecord,
  kindOf,
  type PolicyRecord,
  type RecordKey,
} from '../distribution/records.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Log } from '../kernel/log.ts'
import { ContentFault, type PolicyFiles } from './disk/policy_files.ts'
import { createExpiries } from './expiry.ts'
import { type Prepared, valueFor } from './plan.ts'
import type { Refusals } from './refusals.ts'
import type { Upstreams } from './upstreams/upstreams.ts'

type Parts = {
  log: Log
  known: ReadonlyMap<RecordKey, EdgeRecord>
  policyFiles: PolicyFiles
  upstreams: Upstreams
  clock: Clock
}

/** Prepares records for planning: writes policy files to disk and resolves host names. */
export function createPreparation(parts: Parts, refusals: Refusals) {
  const { known, upstreams } = parts
  const policies = createPolicies(parts, refusals)

  function resolvedValueFor(record: EdgeRecord): unknown {
    const { key, value } = record
    const isBackend = kindOf(key) === 'backend'
    if (value === null && isBackend) {
      upstreams.forget(key)
      refusals.upstreams.forget(key)
    }
    if (value === null) return null
    if (isBackend) return upstreams.resolve(record, refusals.upstreams)
    return kindOf(key) === 'policy' ? policies.valueOf(record) : valueFor(key, value)
  }

  function* preparedOf(records: Iterable<EdgeRecord>, missing?: ReadonlySet<RecordKey>): Generator<Prepared> {
    for (const record of records) {
      const { key, generation } = record
      if (missing?.has(key)) continue
      try {
        yield { record, value: resolvedValueFor(record) }
      } catch (error) {
        refusals.refuse({ key, generation, reason: (error as Error).message })
      }
    }
  }

  return {
    unfinished: policies.unfinished,
    withoutRuleNames: policies.withoutRuleNames,
    expired: policies.expired,

    /**
     * Waits for policy files and backend names, and yields each prepared record once, lazily: there may be a million.
     * Leaves out records that cannot be prepared.
     */
    async prepare(records: Iterable<EdgeRecord>): Promise<Iterable<Prepared>> {
      const missing = new Set<RecordKey>()
      const instead: EdgeRecord[] = []
      await upstreams.prepare(records, known)
      for (const record of records) {
        if (kindOf(record.key) !== 'policy' || (await policies.prepare(record))) continue
        missing.add(record.key)
        const inForce = await policies.prepareExpired(record.key)
        if (inForce) instead.push(inForce)
      }
      const prepared = preparedOf(records, missing)
      return instead.length === 0 ? prepared : [...prepared, ...preparedOf(instead)]
    },

    sweep: policies.sweep,
  }
}

function createPolicies({ log, known, policyFiles, clock }: Parts, refusals: Refusals) {
  const unfinished = createUnfinished(log)
  /** Policies in force without the file that names the deciding rule, because a piece of it is missing. */
  const withoutRuleNames = new Set<RecordKey>()
  const expiries = createExpiries({ log, policyFiles, clock })

  /** A failure here never prevents the policy from being enforced. */
  async function prepareRules({ key, value, rules }: EdgeRecord): Promise<void> {
    withoutRuleNames.delete(key)
    if (value === null || !isPolicyRecord(rules)) return
    const before = known.get(key)?.rules
    await policyFiles
      .prepareRules(rules, isPolicyRecord(before) ? before : undefined)
      .catch(() => withoutRuleNames.add(key))
  }

  return {
    unfinished: unfinished.records,
    withoutRuleNames: withoutRuleNames as ReadonlySet<RecordKey>,
    expired: expiries.due,

    /** Resolves to false if the file is unavailable. The policy is then refused, or kept for a retry. */
    async prepare(record: EdgeRecord): Promise<boolean> {
      const { key, generation, value } = record
      try {
        const before = known.get(key)?.value as PolicyRecord | null | undefined
        if (value !== null) await policyFiles.prepare(value as PolicyRecord, before ?? undefined)
        unfinished.finish(key)
        await prepareRules(record)
        await expiries.prepare(record, known.get(key))
        return true
      } catch (error) {
        const { message } = error as Error
        if (!(error instanceof ContentFault)) unfinished.postpone(record, message)
        else {
          unfinished.finish(key)
          refusals.refuse({ key, generation, reason: message })
        }
        return false
      }
    },
    /**
     * The record in force, if some of its rules have expired. They expire even while a newer record waits for its file.
     */
    async prepareExpired(key: RecordKey): Promise<EdgeRecord | undefined> {
      const inForce = known.get(key)
      if (!inForce || !expiries.isDue(key)) return undefined
      await expiries.prepare(inForce)
      return inForce
    },
    /** Null if the policy must refuse everyone. */
    valueOf({ key, value, rules }: EdgeRecord): unknown {
      const files = expiries.filesOf(key)
      if (files === null) return null
      if (files) return files.join('.')
      return valueFor(
        key,
        value as PolicyRecord,
        isPolicyRecord(rules) && !withoutRuleNames.has(key) ? rules : undefined,
      )
    },
    /** Must not run during a preparation, which could rely on a file that this removes. */
    sweep(): Promise<number> {
      const made = expiries.files().map((hash) => ({ hash }))
      return policyFiles.sweep([...policiesOf(known), ...policiesOf(unfinished.records), ...made])
    },
  }
}

/**
 * Verified records without their file: a piece of the policy is missing, or the disk cannot store it. No later
 * generation counts as applied.
 */
function createUnfinished(log: Log) {
  const records = new Map<RecordKey, EdgeRecord>()
  const reasons = new Map<RecordKey, string>()
  return {
    records: records as ReadonlyMap<RecordKey, EdgeRecord>,
    finish(key: RecordKey): void {
      records.delete(key)
      reasons.delete(key)
    },
    /** A policy is refused only for its content. Any other error may pass, so the next step retries. */
    postpone(record: EdgeRecord, reason: string): void {
      const { key, generation } = record
      records.set(key, record)
      if (reasons.get(key) !== reason)
        log.warn({ key, generation, reason }, 'the file of a policy cannot be completed; retrying every second')
      reasons.set(key, reason)
    },
  }
}

/** Includes the files that name the deciding rule and those of expiring rules. */
function* policiesOf(records: ReadonlyMap<RecordKey, EdgeRecord>): Generator<PolicyRecord> {
  for (const { key, value, rules, expiring } of records.values()) {
    if (value === null || kindOf(key) !== 'policy') continue
    yield value as PolicyRecord
    if (isPolicyRecord(rules)) yield rules
    if (isExpiringRules(expiring)) yield expiring.list
  }
}

export type Preparation = ReturnType<typeof createPreparation>
