import assert from 'node:assert/strict'
import { test } from 'node:test'
import { random, randomBelow } from '../../test/harness/random.ts'
import type { EdgeRecord, RecordKey, RecordValue } from '../distribution/records.ts'
import { type IdPrefix, newId } from '../kernel/ids.ts'
import { createReferences } from './affected.ts'

type Value = {
  account?: string
  edge?: string
  backend?: string | null
  policies?: string[] | null
  sets?: { policies: string[] }[]
  backends?: (string | [string, number])[]
  response?: string
}
const idOf = (key: string) => key.slice(key.indexOf('.') + 1)

/** The same, by a pass over all records. */
function affectedByPass(changed: readonly EdgeRecord[], records: ReadonlyMap<RecordKey, EdgeRecord>): string[] {
  const ids = new Set(changed.map(({ key }) => idOf(key)))
  const isNamed = (names: readonly (string | null | undefined)[]) => names.some((id) => id && ids.has(id))
  const valueUnder = (key: string) => records.get(key as RecordKey)?.value as Value | null | undefined
  const ofGroup = (id: string) => {
    const { backends = [], response } = valueUnder(`weighted.${id}`) ?? valueUnder(`failover.${id}`) ?? {}
    return [...backends.map((each) => (typeof each === 'string' ? each : each[0])), response]
  }
  const affected = new Set<string>()
  for (const { key, value } of [...changed, ...records.values()]) {
    if (!/^(tcp|route)\./.test(key)) continue
    const { account, edge, backend, policies } = (value ?? {}) as Value
    const restricting = valueUnder(`restrictions.${account}`)?.sets?.flatMap((set) => set.policies) ?? []
    const names = [idOf(key), account, edge, backend, ...(backend ? ofGroup(backend) : []), ...(policies ?? [])]
    if (value === null ? ids.has(idOf(key)) : isNamed([...names, ...restricting])) affected.add(idOf(key))
  }
  return [...affected]
}

const some = <Item>(items: readonly Item[], most: number): Item[] =>
  [...new Set(Array.from({ length: randomBelow(most + 1) }, () => items[randomBelow(items.length)] as Item))].slice(0)
const oneOf = <Item>(items: readonly Item[]): Item => items[randomBelow(items.length)] as Item
const ids = (prefix: IdPrefix, count: number) => Array.from({ length: count }, () => newId(prefix) as string)

/** A record of any kind that names others, or nothing any more. */
function createWriter() {
  const [accounts, policies, edges] = [ids('ac', 3), ids('ipp', 5), ids('edghts', 4)]
  const [statics, weighted, failingOver, responses] = [
    ids('bkdst', 5),
    ids('bkdwd', 2),
    ids('bkdfo', 2),
    ids('bkdhr', 2),
  ]
  const [tcp, routes] = [ids('edgtcp', 6), ids('edghtsrt', 8)]
  const backend = () => (random() < 0.2 ? null : oneOf([...statics, ...weighted, ...failingOver, ...responses]))
  const target = () => ({
    account: oneOf(accounts),
    backend: backend(),
    policies: random() < 0.5 ? null : some(policies, 3),
  })
  const kinds: [string, readonly string[], () => object][] = [
    ['tcp', tcp, target],
    ['route', routes, () => ({ ...target(), edge: oneOf(edges) })],
    ['https', edges, () => ({ hostports: [] })],
    ['backend', statics, () => ({ port: 1 })],
    ['response', responses, () => ({ status: 200 })],
    ['weighted', weighted, () => ({ backends: some(statics, 3).map((id) => [id, 1]) })],
    [
      'failover',
      failingOver,
      () => ({ backends: some(statics, 3), ...(random() < 0.5 && { response: oneOf(responses) }) }),
    ],
    ['policy', policies, () => ({ hash: '' })],
    ['restrictions', accounts, () => ({ sets: some(policies, 2).map((policy) => ({ policies: [policy] })) })],
  ]
  return (generation: number): EdgeRecord => {
    const [kind, names, value] = oneOf(kinds)
    const key = `${kind}.${oneOf(names)}` as RecordKey
    return { key, generation, value: random() < 0.2 ? null : (value() as RecordValue) }
  }
}

test('what a change affects is found as by a pass over all records, in random histories', () => {
  for (let history = 0; history < 50; history++) {
    const write = createWriter()
    const records = new Map<RecordKey, EdgeRecord>()
    for (let index = 0; index < 20; index++) {
      const record = write(index)
      records.set(record.key, record)
    }
    const references = createReferences(records.values())
    for (let step = 0; step < 100; step++) {
      const batch = Array.from({ length: 1 + randomBelow(3) }, () => write(100 + step))
      const changed = [...new Map(batch.map((record) => [record.key, record])).values()]
      for (const record of changed) {
        references.replace(records.get(record.key), record)
        records.set(record.key, record)
      }
      assert.deepEqual(references.affected(changed).sort(), affectedByPass(changed, records).sort())
    }
  }
})
