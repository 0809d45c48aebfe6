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

/** Everything that a record needs before it can be planned: its policy file on disk, its host name looked up. */
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
    /** Policies with rules that have expired. */
    expired: policies.expired,

    /**
     * Waits for the files of policies and the names of backends. The records come one by one when they are asked for, once:
     * there may be a million of them. Those that cannot be prepared are left out.
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
  /** In force, but it cannot be said which of their rules decides: a piece of that file is missing. */
  const withoutRuleNames = new Set<RecordKey>()
  const expiries = createExpiries({ log, policyFiles, clock })

  /** Never keeps a policy from being enforced. */
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

    /** Resolves to false when the file cannot be had: then the policy is refused, or kept for another try. */
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
    /** The record in force, if rules of it have expired: they do so while a newer one waits for its file. */
    async prepareExpired(key: RecordKey): Promise<EdgeRecord | undefined> {
      const inForce = known.get(key)
      if (!inForce || !expiries.isDue(key)) return undefined
      await expiries.prepare(inForce)
      return inForce
    },
    /** Null when it must refuse everyone. */
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
    /** Must not run while anything is prepared, or a file could be removed that was just found to be there. */
    sweep(): Promise<number> {
      const made = expiries.files().map((hash) => ({ hash }))
      return policyFiles.sweep([...policiesOf(known), ...policiesOf(unfinished.records), ...made])
    },
  }
}

/**
 * Believed, but without their file yet: a piece of the policy is missing, or the disk does not take it. Nothing after them
 * counts as applied.
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
    /** Only what was sent is a reason to refuse it. Everything else may pass, and is tried again with the next step. */
    postpone(record: EdgeRecord, reason: string): void {
      const { key, generation } = record
      records.set(key, record)
      if (reasons.get(key) !== reason)
        log.warn({ key, generation, reason }, 'the file of a policy cannot be completed; retrying every second')
      reasons.set(key, reason)
    },
  }
}

/** With the files that say which rule decides, and which expire. */
function* policiesOf(records: ReadonlyMap<RecordKey, EdgeRecord>): Generator<PolicyRecord> {
  for (const { key, value, rules, expiring } of records.values()) {
    if (value === null || kindOf(key) !== 'policy') continue
    yield value as PolicyRecord
    if (isPolicyRecord(rules)) yield rules
    if (isExpiringRules(expiring)) yield expiring.list
  }
}

export type Preparation = ReturnType<typeof createPreparation>
