import { encodePolicy } from '../distribution/policy_file.ts'
import { type EdgeRecord, type ExpiringRules, isExpiringRules, type RecordKey } from '../distribution/records.ts'
import { encodeRules } from '../distribution/rule_file.ts'
import { readRuleList } from '../distribution/rule_list.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Uuid } from '../kernel/ids.ts'
import { compilePolicyInSlices, type DatedRule, type DatedRules } from '../kernel/ip/ranges.ts'
import type { Log } from '../kernel/log.ts'
import type { PolicyFiles } from './disk/policy_files.ts'

type Parts = { log: Log; policyFiles: PolicyFiles; clock: Clock }

type State = {
  /** Time of the next check, in milliseconds. */
  next: number
  /**
   * Files compiled here, because rules have expired since the record was sent. Missing: use the files of the record.
   * Null: refuse everyone.
   */
  files?: readonly string[] | null
  /** Why the current rules could not be determined. */
  fault?: string
}

/**
 * Expires rules by this node's clock, with or without the control plane. It compiles the remaining rules into the same
 * files that the control plane makes, so that the later record changes nothing. If that fails and an allow rule may have
 * expired, the policy refuses everyone until the files can be compiled.
 */
export function createExpiries({ log, policyFiles, clock }: Parts) {
  const states = new Map<RecordKey, State>()

  async function filesAt(now: number, list: DatedRules & { accountId: Uuid }): Promise<string[]> {
    const left = unexpired(list, now)
    const ranges = await compilePolicyInSlices(left.rules)
    const files = [encodePolicy(ranges), encodeRules(list.accountId, ranges, left.ruleIds)]
    for (const file of files) await policyFiles.write(file)
    return files.map(({ hash }) => hash)
  }

  async function stateOf(record: EdgeRecord, { at, list }: ExpiringRules, before?: ExpiringRules): Promise<State> {
    const now = clock()
    const isExpired = now >= at
    let mayHaveAllowed = isExpired
    try {
      await policyFiles.prepareRuleList(list, before?.list)
      if (!isExpired) return { next: at }
      const read = readRuleList(await policyFiles.readRuleList(list))
      const expired = read.rules.filter((rule) => !isLeft(rule, now))
      mayHaveAllowed = expired.some(({ action }) => action === 'allow')
      const files = await filesAt(now, read)
      noteExpired(record, files, expired.length)
      return { next: firstExpiry(read.rules, now), files }
    } catch (error) {
      const fault = (error as Error).message
      noteFault(record, fault, mayHaveAllowed)
      return { next: 0, fault, ...(mayHaveAllowed && { files: null }) }
    }
  }

  function noteExpired({ key, generation, value }: EdgeRecord, [file]: readonly string[], rules: number): void {
    const known = states.get(key)?.files?.[0] ?? (value as { hash: string }).hash
    if (known !== file)
      log.info({ key, generation, rules }, 'rules of a policy have expired; enforcing it without them')
  }

  function noteFault({ key, generation }: EdgeRecord, reason: string, isShut: boolean): void {
    const known = states.get(key)
    if (known?.fault === reason && (known.files === null) === isShut) return
    if (isShut)
      log.error(
        { key, generation, reason },
        'an allow rule may have expired, and what is left of the policy cannot be compiled: it refuses everyone; retrying every second',
      )
    else log.warn({ key, generation, reason }, 'rules of a policy cannot expire here yet; retrying every second')
  }

  return {
    /** Call this once the files of the record are in place, and again when it is due. */
    async prepare(record: EdgeRecord, before?: EdgeRecord): Promise<void> {
      const { key, value, expiring } = record
      if (value === null || !isExpiringRules(expiring)) states.delete(key)
      else {
        const known = isExpiringRules(before?.expiring) ? before.expiring : undefined
        states.set(key, await stateOf(record, expiring, known))
      }
    },
    filesOf: (key: RecordKey): readonly string[] | null | undefined => states.get(key)?.files,
    due(): RecordKey[] {
      const now = clock()
      return [...states].filter(([, { next }]) => next <= now).map(([key]) => key)
    },
    isDue(key: RecordKey): boolean {
      const next = states.get(key)?.next
      return next !== undefined && next <= clock()
    },
    files: (): string[] => [...states.values()].flatMap(({ files }) => files ?? []),
  }
}

/** Same comparison as in the database: a rule has expired at the exact moment. */
const isLeft = ({ expiresAt = Number.POSITIVE_INFINITY }: DatedRule, now: number): boolean => expiresAt > now

function unexpired({ rules, ruleIds }: DatedRules, now: number): DatedRules {
  const left = [...rules.entries()].filter(([, rule]) => isLeft(rule, now))
  return {
    rules: left.map(([, rule]) => rule),
    ruleIds: Buffer.concat(left.map(([index]) => ruleIds.subarray(index * 16, (index + 1) * 16))),
  }
}

function firstExpiry(rules: readonly DatedRule[], now: number): number {
  let first = Number.POSITIVE_INFINITY
  for (const { expiresAt } of rules) if (expiresAt !== undefined && expiresAt > now) first = Math.min(first, expiresAt)
  return first
}

export type Expiries = ReturnType<typeof createExpiries>
