import { randomUUID } from 'node:crypto'
import type { ReportedRuleHits, RuleHitCount } from '../../distribution/channels.ts'
import { diskFiles, type Files, writeAtomically } from '../disk/files.ts'

/** Hits kept on this node while the control plane cannot be reached: about 40 MB. */
const maxKept = 200_000
/** Limit for one report, which the control plane writes in one transaction. */
const maxSent = 2_000
const dayMs = 24 * 60 * 60 * 1_000

export type RuleOutcome = 'allowed' | 'refused' | 'warned'
type Notes = { sender: string; batch: number; sending: RuleHitCount[]; waiting: RuleHitCount[] }

/** Hits by account, rule and day. */
function createWaiting(most: number) {
  const accounts = new Map<string, Map<string, RuleHitCount>>()
  let size = 0
  let lost = 0

  function add(hit: RuleHitCount): void {
    let ofAccount = accounts.get(hit.account)
    const key = `${hit.rule} ${hit.day}`
    const known = ofAccount?.get(key)
    if (known) {
      known.allowed += hit.allowed
      known.refused += hit.refused
      known.warned += hit.warned
      if (hit.lastAt > known.lastAt) known.lastAt = hit.lastAt
      return
    }
    if (size >= most) makeRoom()
    // makeRoom() may have removed this account's last entry.
    ofAccount = accounts.get(hit.account)
    if (!ofAccount) {
      ofAccount = new Map()
      accounts.set(hit.account, ofAccount)
    }
    ofAccount.set(key, { ...hit })
    size++
  }

  /** Removes counts of the account with the most, so that no account can displace the counts of others. */
  function makeRoom(): void {
    let [largest, most] = ['', 0]
    for (const [account, { size: count }] of accounts) if (count > most) [largest, most] = [account, count]
    const [key, hit] = accounts.get(largest)?.entries().next().value ?? []
    if (key === undefined || !hit) return
    remove(largest, key)
    lost += hit.allowed + hit.refused + hit.warned
  }

  function remove(account: string, key: string): void {
    const ofAccount = accounts.get(account)
    if (!ofAccount?.delete(key)) return
    size--
    if (ofAccount.size === 0) accounts.delete(account)
  }

  function takeSome(most: number): RuleHitCount[] {
    const taken: RuleHitCount[] = []
    for (const [account, ofAccount] of [...accounts])
      for (const [key, hit] of ofAccount) {
        if (taken.length >= most) return taken
        taken.push(hit)
        remove(account, key)
      }
    return taken
  }

  return {
    add,
    takeSome,
    lost: () => lost,
    all: (): RuleHitCount[] => [...accounts.values()].flatMap((each) => [...each.values()]),
  }
}

/**
 * Counts which rules decided on this node until the control plane has stored the counts. A batch keeps its number and
 * content until it is confirmed, so that the control plane can recognize a repeated one.
 */
export function createRuleHits({ most = maxKept, files = diskFiles }: { most?: number; files?: Files } = {}) {
  let sender: string = randomUUID()
  let batch = 0
  let sending: RuleHitCount[] = []
  let lostBefore = 0
  const waiting = createWaiting(most)

  return {
    count(account: string, rule: string, outcome: RuleOutcome, times: number, at: number): void {
      const hit = { account, rule, day: at - (at % dayMs), allowed: 0, refused: 0, warned: 0, lastAt: at }
      hit[outcome] = times
      waiting.add(hit)
    },
    /**
     * The batch to send; the same one until it is confirmed. Undefined if there is none. If the server accepts fewer
     * hits now than when the batch was built, the rest comes later. If the whole batch arrived and only its confirmation
     * was lost, the rest counts twice: that misleads less than a rule that seems unused.
     */
    next(most = maxSent): ReportedRuleHits | undefined {
      for (const hit of sending.splice(Math.max(1, most))) waiting.add(hit)
      if (sending.length === 0) {
        sending = waiting.takeSome(Math.min(most, maxSent))
        if (sending.length > 0) batch++
      }
      return sending.length > 0 ? { sender, batch, hits: sending } : undefined
    },
    confirm(confirmed: number): void {
      if (confirmed === batch) sending = []
    },
    /** Hits that HAProxy had no room for. */
    lose(hits: number): void {
      lostBefore += hits
    },
    /** Hits that did not fit in HAProxy or here. */
    lost: (): number => lostBefore + waiting.lost(),
    /** Saves the counts for the next agent on this node. */
    async save(file: string): Promise<void> {
      const notes: Notes = { sender, batch, sending, waiting: waiting.all() }
      if (sending.length || notes.waiting.length) await writeAtomically(files, file, [JSON.stringify(notes)])
    },
    /**
     * Adopts the undelivered counts of an earlier agent. Removes the file, so that no other agent delivers them again.
     */
    async load(file: string): Promise<void> {
      const text = await files.read(file).catch(() => undefined)
      if (text === undefined) return
      const notes = JSON.parse(`${text}`) as Notes
      await files.remove(file)
      ;({ sender, batch, sending } = notes)
      for (const hit of notes.waiting) waiting.add(hit)
    },
  }
}
export type RuleHits = ReturnType<typeof createRuleHits>
