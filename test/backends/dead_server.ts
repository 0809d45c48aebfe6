import type { Scope } from '../harness/control_plane.ts'
import { type Observed, startLoad } from '../harness/open_loop.ts'
import { pause, poll } from '../harness/poll.ts'
import { executedTwice, executionsOf, type Group } from './group.ts'

export type Outcome = {
  observed: Observed
  executions: ReadonlyMap<string, number>
  twice: { GET: string[]; POST: string[] }
  /** For each kill, how many milliseconds until the server that came back executed its first request. */
  backAfterMs: number[]
}

/** Servers under load, killed in turn and started again. */
export async function killServers(
  scope: Scope,
  { edge, host, servers }: Group,
  { kills, perSecond, downMs }: { kills: number; perSecond: number; downMs: number },
): Promise<Outcome> {
  const load = startLoad(scope, { name: 'killed', httpsPort: edge.httpsPort, hosts: [host], perSecond, posts: 0.3 })
  const backAfterMs: number[] = []
  for (let kill = 0; kill < kills; kill++) {
    await pause(1_000)
    const server = servers[kill % servers.length] ?? servers[0]
    if (!server) throw new Error('there are no servers')
    await server.kill()
    const before = (await server.executions()).length
    await pause(downMs)
    await server.start()
    const began = performance.now()
    await poll(
      async () => (await server.executions()).length,
      (executed) => executed > before,
    )
    backAfterMs.push(performance.now() - began)
  }
  const observed = await load.stop()
  const executions = await executionsOf(servers, 'killed')
  const twice = { GET: executedTwice(executions, 'GET'), POST: executedTwice(executions, 'POST') }
  return { observed, executions, twice, backAfterMs }
}
