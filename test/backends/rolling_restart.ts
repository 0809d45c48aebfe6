import type { Scope } from '../harness/control_plane.ts'
import { type Observed, startLoad } from '../harness/open_loop.ts'
import { poll } from '../harness/poll.ts'
import { executedTwice, executionsOf, type Group } from './group.ts'
import type { ServerProcess } from './server_process.ts'

export type Outcome = {
  observed: Observed
  restarts: number
  /** Requests that a server with weight 0 got after those that were on their way to it. */
  whileDrained: number
  twice: string[]
}

/** Servers, each in turn drained with weight 0, restarted, and given its weight back, for as long as requests come. */
export async function restartInTurn(
  scope: Scope,
  { edge, host, servers, weigh }: Group,
  { requests, perSecond }: { requests: number; perSecond: number },
): Promise<Outcome> {
  const load = startLoad(scope, {
    name: 'restarted',
    httpsPort: edge.httpsPort,
    hosts: [host],
    perSecond,
    posts: 0.3,
    total: requests,
  })
  let [isOver, restarts, whileDrained] = [false, 0, 0]
  const end = load.finished.then((observed) => {
    isOver = true
    return observed
  })
  for (let turn = 0; !isOver; turn++) {
    const [index, server] = [turn % servers.length, servers[turn % servers.length] as ServerProcess]
    await weigh(...servers.map((_, other) => (other === index ? 0 : 1)))
    const drained = await quietCount(server)
    await server.finish()
    whileDrained += (await server.executions()).length - drained
    await server.start()
    const before = (await server.executions()).length
    await weigh(...servers.map(() => 1))
    await poll(async () => isOver || (await server.executions()).length > before)
    restarts++
  }
  const observed = await end
  return { observed, restarts, whileDrained, twice: executedTwice(await executionsOf(servers, 'restarted'), '') }
}

/** What is on its way to a drained server reaches it: a connection that it has not accepted yet would end with its process. */
async function quietCount(server: ServerProcess): Promise<number> {
  const quietMs = 1_000
  let [count, since] = [-1, performance.now()]
  await poll(async () => {
    const { length } = await server.executions()
    if (length !== count) since = performance.now()
    count = length
    return performance.now() - since > quietMs
  })
  return count
}
