// A region: a leaf server that the nodes of a cell connect to, and a link to NATS of the control plane that can be cut.
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type LocalNats, startNats } from '../../dev/nats.ts'
import { freePort } from '../../dev/ports.ts'
import { createCell } from '../../src/commands/cells/cells.ts'
import { one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { newNatsOperator } from '../../src/fleet/nats_accounts.ts'
import { findCell } from '../../src/operations/placement.ts'
import { gatehouse } from '../harness/command.ts'
import type { Scope } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'
import { startTcpProxy } from '../harness/tcp_proxy.ts'
import { startJoining } from './joining.ts'
import { startOperatorNats, startOperatorNatsCluster } from './operator_nats.ts'

const shipped = new URL('../../deploy/nats/leaf.conf', import.meta.url)

/** Nodes of the cell `eu` join through a leaf server, which has links to one server of the control plane or to three. */
export async function startRegion(scope: Scope, servers: 1 | 3 = 1) {
  const { operator } = newNatsOperator(Date.now())
  const ports = await Promise.all(Array.from({ length: servers }, async () => [await freePort(), await freePort()]))
  const more = ports.map(([leaf, http]) => `leafnodes { listen: "127.0.0.1:${leaf}" }\nhttp: "127.0.0.1:${http}"\n`)
  const hub: Promise<LocalNats> =
    servers === 1 ? startOperatorNats(scope, operator, more[0]) : startOperatorNatsCluster(scope, operator, more)
  const fleet = await startJoining(scope, { nats: hub, operator })
  await fleet.untilReady()
  await createCell(fleet.db, { name: 'eu', isDefault: false, confirmed: true })
  const eu = await findCell(fleet.db, 'eu')
  assert.ok(eu)
  const links = await Promise.all(ports.map(([leaf]) => startTcpProxy(scope, `nats://127.0.0.1:${leaf}`)))
  const home = await mkdtemp(join(tmpdir(), 'gatehouse-leaf-'))
  scope.after(() => rm(home, { recursive: true, force: true }))

  /** Two links: of the accounts and of the cell. */
  const linked = async () => {
    const of = async (http: number | undefined) => {
      const answer = await fetch(`http://127.0.0.1:${http}/leafz`)
      return ((await answer.json()) as { leafs?: Leaf[] }).leafs ?? []
    }
    return (await Promise.all(ports.map(([, http]) => of(http)))).flat()
  }
  async function newLeaf(name: string) {
    const [port, http] = [await freePort(), await freePort()]
    const folder = join(home, name)
    const [urls, address] = [links.map(({ url }) => url).join(','), `nats://127.0.0.1:${port}`]
    const flags = ['--hub', urls, '--address', address, '--out', folder, '--at', folder]
    const made = await gatehouse(['nats', 'leaf', 'eu', ...flags, '--folder', join(folder, 'accounts')], fleet.env)
    assert.equal(made.code, 0, made.stderr)
    // Without TLS and the addresses of the shipped file.
    const conf = (await readFile(shipped, 'utf8'))
      .replace(/^server_name:.*\n/m, '')
      .replace(/^listen:.*\n/m, '')
      .replace(/^tls \{[^}]*\}\n/m, '')
    const file = join(folder, 'leaf.conf')
    await writeFile(file, `${conf}\nhttp: "127.0.0.1:${http}"\n`)
    const leaf = await startNats({ name: `gatehouse-nats-${name}`, authorization: file, hasJetStream: false, port })
    scope.after(() => leaf.stop())
    await poll(linked, (found) => found.length >= 2)
    return { ...leaf, folder, http, operator }
  }

  const cellAccount = async () =>
    (await one<{ account: string }>(fleet.db, sql`select account from cell_accounts where cell_id = ${eu.id}`)).account
  return {
    ...{ fleet, eu, operator, links, newLeaf, linked, cellAccount },
    async cut() {
      for (const link of links) await link.cut()
      await poll(linked, (found) => found.length === 0)
    },
    async heal() {
      for (const link of links) await link.heal()
    },
  }
}

type Leaf = { account: string; in_msgs: number; out_msgs: number; in_bytes: number; out_bytes: number }
