// A cell with nodes in two waves, tenants that are served there, and what a client sees on each node.

import assert from 'node:assert/strict'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toId } from '../../src/kernel/ids.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { latestRollouts } from '../../src/operations/rollouts.ts'
import { startHttpUpstream } from '../agent/http_harness.ts'
import { gatehouse } from '../harness/command.ts'
import type { Scope } from '../harness/control_plane.ts'
import type { EdgeProcess } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { statusOf } from '../upgrade/installation.ts'
import { startJoining } from './joining.ts'

type Owner = { client: { accountId: string } }
export type Tenant = Awaited<ReturnType<Awaited<ReturnType<typeof startTwoWaves>>['newTenant']>>
export type Node = Pick<EdgeProcess, 'httpsPort'>

export async function startTwoWaves(scope: Scope, soakMs: number) {
  const fleet = await startJoining(scope)
  await fleet.untilReady()
  await run(fleet.db, sql`update cells set soak_seconds = ${soakMs / 1_000}`)
  const web = await startHttpUpstream(scope, 'web')

  async function startNode(name: string, wave: number) {
    const machine = await fleet.joinMachine(await fleet.invite(name, defaultCell, wave))
    assert.equal(machine.code, 0, machine.stderr)
    return Object.assign(await fleet.startJoined(machine), { machine, name })
  }

  async function newTenant(host: string) {
    const client = await fleet.newAccount()
    const backend = await make(client, '/backends/static', { address: `127.0.0.1:${web.port}` })
    const policy = await make(client, '/ip_policies', { description: `guards ${host}` })
    const edge = await newHttpsEdge(client, { hostports: [`${host}:443`] })
    const route = await make(client, `${edge.uri}/routes`, {
      ...{ match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } },
      ip_restriction: { ip_policy_ids: [policy.id] },
    })
    const rule = (action: string, cidr = '127.0.0.0/8') =>
      make(client, '/ip_policy_rules?wait=applied', { ip_policy_id: policy.id, cidr, action })
    await rule('allow')
    return { client, host, edge, route, backend, policy, rule }
  }

  const status = ({ httpsPort }: Node, { host }: { host: string }, from = '127.0.0.1') =>
    statusOf(httpsPort, host, from).catch(() => 0)
  const rollouts = async ({ client }: Owner) =>
    (await latestRollouts(fleet.db, 100)).filter(({ account_id }) => client.accountId === toId('ac', account_id))
  const open = async (tenant: Owner) => (await rollouts(tenant)).filter(({ ended_at }) => !ended_at)
  return {
    ...{ fleet, web, startNode, newTenant, status, rollouts, open },
    answers: (node: Node, tenant: { host: string }, expected: number) =>
      poll(
        () => status(node, tenant),
        (found) => found === expected,
      ),
    settled: (tenant: Owner) =>
      poll(
        () => open(tenant),
        ({ length }) => length === 0,
      ),
    halted: (tenant: Owner) =>
      poll(
        async () => (await open(tenant)).find(({ state }) => state === 'halted'),
        (found) => found !== undefined,
      ),
    async command(...args: string[]) {
      const ended = await gatehouse(['rollouts', ...args, '--reason', 'a test'], fleet.env)
      assert.equal(ended.code, 0, ended.stderr)
    },
  }
}
