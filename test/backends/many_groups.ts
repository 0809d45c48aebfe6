import { once } from 'node:events'
import { createServer } from 'node:http'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import type { EdgeRecord, RecordKey, RecordValue } from '../../src/distribution/records.ts'
import { type Id, newId } from '../../src/kernel/ids.ts'
import type { Scope } from '../harness/control_plane.ts'

export const groupsPerEdge = 100
const groupsPerAccount = 500

export const hostOfGroup = (group: number): string => `g${Math.floor(group / groupsPerEdge)}.example`
export const pathOfGroup = (group: number): string => `/${group % groupsPerEdge}`

/** Weighted backends of two servers each, at addresses of their own, and a route to each: the records of a node. */
export function* manyGroups(count: number, upstreamPort: number): Generator<EdgeRecord> {
  const record = (key: RecordKey, value: RecordValue): EdgeRecord => ({ key, generation: 1, value })
  let [account, https] = [newId('ac'), newId('edghts')]
  for (let group = 0; group < count; group++) {
    if (group % groupsPerAccount === 0) {
      account = newId('ac')
      yield record(`restrictions.${account}`, { sets: [] })
    }
    if (group % groupsPerEdge === 0) {
      https = newId('edghts')
      yield record(`https.${https}`, { hostports: [`${hostOfGroup(group)}:443`] })
    }
    const members: [Id<'bkdst'>, number][] = []
    for (const network of [4, 5]) {
      const member = newId('bkdst')
      const host = `127.${network}.${group >> 8}.${group & 255}`
      const health_check = { type: 'tcp', interval_seconds: 30, healthy_after: 2, unhealthy_after: 3 } as const
      yield record(`backend.${member}`, { host, port: upstreamPort, tls: false, health_check })
      members.push([member, 1])
    }
    const weighted = newId('bkdwd')
    yield record(`weighted.${weighted}`, { account, backends: members })
    yield record(`route.${newId('edghtsrt')}`, {
      ...{ account, edge: https, match_type: 'exact_path', match: pathOfGroup(group), backend: weighted },
      ...{ policies: null, headers: null },
    })
  }
}

/** Answers on all of 127.0.0.0/8 with the address that was dialed, in a thread of its own. Resolves to its port. */
export async function startEverywhere(scope: Scope): Promise<number> {
  const worker = new Worker(new URL(import.meta.url), { workerData: 'everywhere' })
  scope.after(async () => void (await worker.terminate()))
  const [port] = (await once(worker, 'message')) as [number]
  return port
}

if (!isMainThread && workerData === 'everywhere') {
  const server = createServer({ keepAliveTimeout: 600_000 }, ({ socket }, response) =>
    response.end(socket.localAddress),
  )
  server.listen({ port: 0, host: '0.0.0.0', backlog: 4_096 }, () =>
    parentPort?.postMessage((server.address() as { port: number }).port),
  )
}
