// An installation changes from passwords to operator mode with one restart of NATS, and back.
import assert from 'node:assert/strict'
import { copyFile, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { newNatsOperator } from '../../src/fleet/nats_accounts.ts'
import { operatorConf } from '../../src/fleet/nats_config.ts'
import { gatehouse } from '../harness/command.ts'
import { stop } from '../harness/control_plane.ts'
import { newTcpEdge } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { startJoining } from './joining.ts'

const shipped = new URL('../../deploy/nats/authorization.conf', import.meta.url)

test('a node with a password joins, and receives changes before and after NATS changes to operator mode, and back', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-nats-'))
  const authorization = join(folder, 'authorization.conf')
  await copyFile(shipped, authorization)
  const { operator } = newNatsOperator(Date.now())
  const fleet = await startJoining(t, { nats: startNats({ authorization }), operator })
  const { admin, nats } = fleet
  const password = { GATEHOUSE_NATS_USER: 'edge-1', GATEHOUSE_NATS_PASSWORD: 'edge-1' }
  const before = await fleet.startEdge()
  const doctor = async () => (await gatehouse(['doctor'], { ...fleet.env, ...nats.controlPlane })).stdout
  assert.match(await poll(doctor, (text) => text.includes('nats.joined_nodes')), /have not joined: edge-1/)

  const joined = await fleet.joinMachine(await fleet.invite('edge-1'), undefined, before.folder)
  assert.equal(joined.code, 0, joined.stderr)
  assert.match(joined.stdout, /until it is in operator mode, the node needs a password/)
  assert.match(await doctor(), /1 edge nodes? ha(s|ve) joined/)
  await stop(before.child)
  const node = await fleet.startJoined(joined, password)
  type Shown = { name: string; live: boolean; applied_generation: number }
  const change = async () => {
    await newTcpEdge(admin)
    const { newest_generation } = (await admin('GET', '/edge_nodes')).body
    const isUpToDate = ({ name, live, applied_generation }: Shown) =>
      name === 'edge-1' && live && applied_generation >= newest_generation
    await poll(async () => (await admin('GET', '/edge_nodes')).body.edge_nodes.some(isUpToDate))
  }
  await change()

  await writeFile(authorization, operatorConf(operator, join(folder, 'accounts'), Date.now()))
  await nats.restart()
  await change()
  const { body } = await admin('GET', '/edge_nodes')
  assert.deepEqual(body.edge_nodes[0].refusals, [])
  assert.match(await doctor(), /signed in with a JWT/)

  await copyFile(shipped, authorization)
  await nats.restart()
  await change()
  assert.ok(node.log.some(({ msg }) => msg === 'connected to NATS'))
})
