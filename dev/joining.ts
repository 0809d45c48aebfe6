// NATS in operator mode for `npm run dev -- --edge`, so that its node joins like any other. Runs in this process,
// because each of the commands for it would take as long to start as all of this.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSecretsBox } from '../src/commands/secrets_key.ts'
import type { Config } from '../src/config/config.ts'
import { openPool } from '../src/db/pool.ts'
import { inviteNode } from '../src/fleet/join.ts'
import { newNatsOperator } from '../src/fleet/nats_accounts.ts'
import { operatorConf } from '../src/fleet/nats_config.ts'
import { insertNatsOperator } from '../src/fleet/operator_store.ts'
import { defaultCell } from '../src/operations/placement.ts'
import { startNats } from './nats.ts'

export type JoiningNats = Awaited<ReturnType<typeof startJoiningNats>>

export async function startJoiningNats() {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-operator-'))
  const { operator } = newNatsOperator(Date.now())
  const authorization = join(folder, 'operator.conf')
  await writeFile(authorization, operatorConf(operator, join(folder, 'accounts'), Date.now()))
  const secretsKeyFile = process.env.GATEHOUSE_SECRETS_KEY_FILE || join(folder, 'secrets.key')
  if (!process.env.GATEHOUSE_SECRETS_KEY_FILE)
    await writeFile(secretsKeyFile, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600 })
  const nats = await startNats({ authorization })
  return {
    controlPlane: { GATEHOUSE_NATS_URL: nats.url, GATEHOUSE_SECRETS_KEY_FILE: secretsKeyFile },
    /** Call it once the database has its tables. Resolves to a token with which the node can join. */
    async invite(databaseUrl: string, node: string): Promise<string> {
      const box = openSecretsBox({ GATEHOUSE_SECRETS_KEY_FILE: secretsKeyFile } as Config)
      if (!box) throw new Error(`${secretsKeyFile} has no key`)
      const timeouts = { connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }
      const db = openPool({ url: databaseUrl, poolSize: 1, ...timeouts }, () => {})
      try {
        await insertNatsOperator(db, box, operator)
        return await inviteNode(db, { cell: defaultCell, wave: 0, name: node, lifeSeconds: 600 })
      } finally {
        await db.end()
      }
    },
    async stop(): Promise<void> {
      await nats.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
