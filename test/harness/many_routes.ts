import { createHash } from 'node:crypto'
import { openRecordLog } from '../../src/agent/disk/record_log.ts'
import type {
  EdgeRecord,
  MutualTlsRecord,
  RecordKey,
  RecordValue,
  RouteRecord,
} from '../../src/distribution/records.ts'
import { type Id, newId } from '../../src/kernel/ids.ts'
import { policyFile } from '../agent/proxy_harness.ts'

export const routesPerEdge = 10
const edgesPerAccount = 100

export const hostOf = (edge: number): string => `h${edge}.example`

/** Given the number of a route and the policy of all, what it has beside its match and backend. */
export type ModulesOf = (
  index: number,
  policy: Id<'ipp'>,
) => Pick<RouteRecord, 'policies' | 'headers'> & Partial<RouteRecord>
const policyOfEveryOther: ModulesOf = (index, policy) => ({
  policies: index % 2 === 0 ? null : [policy],
  headers: null,
})

/** Given the number of an edge, what it asks clients for. */
type MutualOf = (edge: number) => Pick<MutualTlsRecord, 'mode' | 'authorities'> | undefined

/** HTTPS edges with a name, a backend and ten routes each: the records of a node. */
export function* manyRoutes(
  routes: number,
  upstreamPort: number,
  modulesOf = policyOfEveryOther,
  mutualOf: MutualOf = () => undefined,
): Generator<EdgeRecord> {
  const record = (key: RecordKey, value: RecordValue): EdgeRecord => ({ key, generation: 1, value })
  const bytes = policyFile('allow 127.0.0.0/8')
  const hash = createHash('sha256').update(bytes).digest('hex')
  const policy = newId('ipp')
  yield record(`policy.${policy}`, { hash, bytes: bytes.length, inline: bytes.toString('base64') })
  let account = newId('ac')
  for (let edge = 0; edge * routesPerEdge < routes; edge++) {
    if (edge % edgesPerAccount === 0) {
      account = newId('ac')
      yield record(`restrictions.${account}`, { sets: [] })
    }
    const [https, backend] = [newId('edghts'), newId('bkdst')]
    const [hostports, mutual] = [[`${hostOf(edge)}:443`], mutualOf(edge)]
    if (mutual) yield record(`mutual_tls.${https}`, { account, hostports, ...mutual })
    else yield record(`https.${https}`, { hostports })
    yield record(`backend.${backend}`, { host: '127.0.0.1', port: upstreamPort, tls: false })
    for (let index = 0; index < routesPerEdge && edge * routesPerEdge + index < routes; index++) {
      yield record(`route.${newId('edghtsrt')}`, {
        account,
        edge: https,
        match_type: 'path_prefix',
        match: index === 0 ? '/' : `/r${index}`,
        backend,
        ...modulesOf(edge * routesPerEdge + index, policy),
      })
    }
  }
}

/**
 * On the disk of a node that has not started yet, as if it had read them from an earlier bucket. Through the publisher and
 * NATS a million would take a quarter of an hour of both cores, nearly all of it signatures.
 */
export async function writeToDisk(folder: string, records: Iterable<EdgeRecord>): Promise<number> {
  const log = await openRecordLog(folder)
  const position = { applied: 1, revision: 0, bucket: '', complete: true }
  let count = 0
  let batch: EdgeRecord[] = []
  const write = async () => {
    await log.append(batch, position)
    count += batch.length
    batch = []
  }
  for (const record of records) if (batch.push(record) >= 50_000) await write()
  await write()
  await log.close()
  return count
}
