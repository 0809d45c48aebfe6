// An installation whose nodes join, and the commands for it.

import assert from 'node:assert/strict'
import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import type { LocalNats } from '../../dev/nats.ts'
import { newNodeKey } from '../../src/distribution/delivery.ts'
import { inviteNode } from '../../src/fleet/join.ts'
import { type NatsOperator, newNatsOperator } from '../../src/fleet/nats_accounts.ts'
import { newNatsKey } from '../../src/fleet/nats_jwt.ts'
import { latestFleetEvents, setRevoked } from '../../src/fleet/node_store.ts'
import { insertNatsOperator } from '../../src/fleet/operator_store.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { gatehouse } from '../harness/command.ts'
import { type Scope, secretsBox, secretsKeyFile } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'
import { startOperatorNats } from './operator_nats.ts'

export type Joining = Awaited<ReturnType<typeof startJoining>>

/** With NATS in operator mode, or another one that is given. */
export async function startJoining(
  scope: Scope,
  given?: { nats: Promise<LocalNats>; operator: NatsOperator },
  { env: ofServe = {}, databaseUrl }: { env?: Record<string, string>; databaseUrl?: string } = {},
) {
  const { operator } = given ?? newNatsOperator(Date.now())
  const nats = given?.nats ?? startOperatorNats(scope, operator)
  const installation = await startInstallation(scope, ofServe, databaseUrl, nats)
  await insertNatsOperator(installation.db, secretsBox, operator)
  const env = {
    GATEHOUSE_DATABASE_URL: installation.databaseUrl,
    GATEHOUSE_SECRETS_KEY_FILE: secretsKeyFile(),
    GATEHOUSE_NATS_URL: installation.nats.url,
  }
  const [{ origin = '' } = {}] = installation.processes
  const nodes = async (...args: string[]) => {
    const ended = await gatehouse(['nodes', ...args], env)
    assert.equal(ended.code, 0, ended.stderr)
    return ended.stdout.trim()
  }
  const events = async () => (await latestFleetEvents(installation.db, 1_000)).reverse()
  /** As the commands do it, without starting a process for each. */
  const invite = (name: string | null = null, cell = defaultCell, wave = 0) =>
    inviteNode(installation.db, { cell, wave, name, lifeSeconds: 3_600 })
  const revoke = async (name: string) => assert.ok(await setRevoked(installation.db, name))
  /** Until `serve` has given NATS its own account. */
  const untilReady = () =>
    poll(
      () => fetch(`${origin}/readyz`).then((response) => response.json()),
      (body) => JSON.stringify(body).includes('NATS') === false,
    )

  /** As a machine with its own folder. */
  async function joinMachine(token: string, name?: string, given?: string) {
    const folder = given ?? (await mkdtemp(join(tmpdir(), 'gatehouse-joined-')))
    const envFile = join(folder, 'joined.env')
    const flags = ['--token', token, '--settings', envFile, ...(name ? ['--name', name] : [])]
    const ended = await gatehouse(['edge', 'join', origin, ...flags], { GATEHOUSE_EDGE_FOLDER: folder })
    return { ...ended, folder, envFile }
  }
  /** Without a password, unless `more` has one. */
  async function startJoined(
    { folder, envFile }: { folder: string; envFile: string },
    more: Record<string, string> = {},
  ) {
    const settings = parseEnv(await readFile(envFile, 'utf8')) as Record<string, string>
    const none = { GATEHOUSE_NATS_USER: '', GATEHOUSE_NATS_PASSWORD: '' }
    // The first account sees the nodes of its own cells only.
    const cutOff = settings.GATEHOUSE_EDGE_CELL !== defaultCell.name
    return installation.startEdge({ folder, env: { ...none, ...settings, ...more }, cutOff })
  }
  /** What `edge join` sends, with keys that are not kept. */
  const ask = (token: string, keys = newKeys()) =>
    fetch(`${origin}/edge_nodes/join`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ token, name: 'edge-x', ...keys }),
    })
  return {
    ...installation,
    operator,
    env,
    origin,
    nodes,
    events,
    invite,
    revoke,
    untilReady,
    joinMachine,
    startJoined,
    ask,
  }
}

export const newKeys = () => ({ nats_user: newNatsKey('user').publicKey, node_key: newNodeKey().publicKey })
