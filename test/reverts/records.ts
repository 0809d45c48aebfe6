// What edge nodes are sent about an account, as facts that can be compared one by one: compiled as the publisher does it.
import { hash } from 'node:crypto'
import { many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toId, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import { findCell } from '../../src/operations/placement.ts'
import { type Compiled, compileRecords } from '../../src/publisher/records/compile.ts'
import { recordsOf } from '../../src/publisher/records/living.ts'
import type { ControlPlane } from '../harness/control_plane.ts'

/** `${key} ${field}` and its value as text. */
export type Facts = ReadonlyMap<string, string>

const everything = Number.MAX_SAFE_INTEGER
const idPattern = /\b[a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}\b/g

export async function factsOf({ db }: Pick<ControlPlane, 'db'>, accountId: string): Promise<Facts> {
  const account = toUuid(accountId as `ac_${string}`)
  const cell = await findCell(db, 'default')
  if (!cell) throw new Error('there is no default cell')
  const keys = await recordsOf(db, account, everything)
  const changed = keys.map((key) => ({ key, accountId: account }))
  const rules = await many<{ id: Uuid }>(db, sql`select id from ip_policy_rules where account_id = ${account}`)
  const compiled = await compileRecords(db, cell, changed, Date.now())
  return new Map(compiled.flatMap((record) => factsIn(record, rules)))
}

function factsIn({ key, value, blobs, isElsewhere, ...beside }: Compiled, rules: readonly { id: Uuid }[]) {
  if (value === null) return []
  const facts: [string, string][] = [[key, 'exists']]
  const fields = key.startsWith('policy.') ? { decisions: value, ...beside } : { ...value, ...beside }
  for (const [field, each] of Object.entries(fields)) {
    if (field !== 'sets') facts.push([`${key} ${field}`, readable(each, rules)])
    // All of them have to let an address in, so their order says nothing.
    else for (const { id, ...set } of each as { id: string }[]) facts.push([`${key} sets ${id}`, JSON.stringify(set)])
  }
  return facts
}

/** Files with the ids of their rules as text. Their hash follows from them. */
const readable = (value: unknown, rules: readonly { id: Uuid }[]): string =>
  JSON.stringify(value, (name, each) => {
    if (name === 'hash') return undefined
    if (name !== 'inline') return each
    const hex = Buffer.from(each, 'base64').toString('hex')
    return rules.reduce((text, { id }) => text.replaceAll(id.replaceAll('-', ''), ` ${toId('ipr', id)} `), hex)
  })

/**
 * What undoing the first of two changes has to leave: what it changed is as before it, and everything else as it is now. From the
 * facts before it, after it, and now.
 */
export function withoutFirst(before: Facts, after: Facts, now: Facts): Facts {
  const left = new Map<string, string>()
  for (const name of new Set([...before.keys(), ...now.keys()])) {
    const value = before.get(name) === after.get(name) ? now.get(name) : before.get(name)
    if (value !== undefined) left.set(name, value)
  }
  return left
}

/** Whether both changes concern the same fact, such as the rules of one policy: what is left then is not known from the facts alone. */
export const isShared = (before: Facts, after: Facts, now: Facts): boolean =>
  [...new Set([...before.keys(), ...after.keys(), ...now.keys()])].some(
    (name) => before.get(name) !== after.get(name) && after.get(name) !== now.get(name),
  )

/** The same facts, except that what was created again has other ids: those are compared by what they stand in. */
export function isSameRecords(one: Facts, other: Facts): boolean {
  const [a, b] = [linesOf(one), linesOf(other)]
  if (a.join('\n') === b.join('\n')) return true
  const [idsOfOne, idsOfOther] = [idsIn(a), idsIn(b)]
  const known = new Set([...idsOfOne].filter((id) => idsOfOther.has(id)))
  return withLabels(a, known) === withLabels(b, known)
}

const linesOf = (facts: Facts): string[] => [...facts].map(([name, value]) => `${name} ${value}`).sort()
const idsIn = (lines: readonly string[]): Set<string> => new Set(lines.flatMap((line) => line.match(idPattern) ?? []))

/** Each other id is replaced by a hash of the lines that it stands in, and of the hashes of the ids beside it there. */
function withLabels(lines: readonly string[], known: ReadonlySet<string>): string {
  const others = [...idsIn(lines)].filter((id) => !known.has(id))
  let labels = new Map(others.map((id) => [id, '…']))
  const labeled = (line: string, self?: string) =>
    line.replaceAll(idPattern, (id) => (id === self ? '*' : (labels.get(id) ?? id)))
  for (let round = 0; round < 4; round++)
    labels = new Map(
      others.map((id) => {
        const own = lines.filter((line) => line.includes(id)).map((line) => labeled(line, id))
        return [id, hash('sha256', own.sort().join('\n'))]
      }),
    )
  return lines
    .map((line) => labeled(line))
    .sort()
    .join('\n')
}

export const differencesOf = (one: Facts, other: Facts): string => {
  const [a, b] = [linesOf(one), linesOf(other)]
  const only = (these: string[], those: string[], sign: string) =>
    these.filter((line) => !those.includes(line)).map((line) => `${sign} ${line}`)
  return [...only(a, b, '-'), ...only(b, a, '+')].join('\n')
}
