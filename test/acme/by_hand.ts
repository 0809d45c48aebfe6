import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AcmeParts } from '../../src/acme/worker.ts'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { createSecretsBox } from '../../src/kernel/crypto/secrets_box.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { planOrder } from '../../src/resources/reserved_domains/order_plans.ts'
import { type Account, type Scope, startControlPlane } from '../harness/control_plane.ts'
import { startChallengeServer, startPebble } from '../harness/pebble.ts'
import { provenDomain, read, serveNames } from './harness.ts'

/**
 * A control plane that takes requests, and orders that the test itself works on, one by one and by its own clock. They are
 * validated with the hook: there are no nodes. The authority looks for answers to http-01 at `httpPort`.
 */
export async function startOrdersByHand(scope: Scope, httpPort = 1) {
  const challenges = await startChallengeServer(scope)
  const pebble = await startPebble(scope, { dnsServer: challenges.dns, httpPort })
  const plane = await startControlPlane(scope, {
    env: { GATEHOUSE_DNS_SERVERS: challenges.dns, GATEHOUSE_DOMAIN_CHECKS_PER_MINUTE: '1000' },
  })
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-acme-'))
  scope.after(() => rm(folder, { recursive: true }))
  const hook = join(folder, 'hook')
  await writeFile(
    hook,
    `#!/bin/sh
[ "$1" = cleanup ] || exec curl -fsS -d "{\\"host\\":\\"$2.\\",\\"value\\":\\"$3\\"}" ${challenges.url}/set-txt
`,
  )
  await chmod(hook, 0o700)
  const time = { aheadMs: 0 }
  const parts: AcmeParts = {
    db: plane.db,
    box: createSecretsBox([Buffer.alloc(32, 'a key for tests')]),
    nodes: { waitFor: async () => ({ applied: [], behind: [] }), committed() {} },
    waitForNodesMs: 1_000,
    settings: {
      directoryUrl: pebble.directoryUrl,
      ca: pebble.ca,
      contact: '',
      agreesToTerms: true,
      dnsHook: hook,
      dnsOnly: true,
      ordersPerHour: 1_000,
    },
    clock: () => Date.now() + time.aheadMs,
    random: () => 0.5,
    signal: new AbortController().signal,
    onCleanUpFailed: (error) => assert.fail(String(error)),
  }
  /** A proven domain in use, with an order that is due. */
  async function managed(as: Account): Promise<{ id: Id<'rd'>; uri: string; domain: string }> {
    const reserved = await provenDomain({ challenges }, as)
    await serveNames(as, [reserved.domain])
    // As the API would, if this control plane had an authority.
    const [accountId, id] = [toUuid(as.accountId as Id<'ac'>), toUuid(reserved.id)]
    await run(
      plane.db,
      sql`
      update reserved_domains set certificate_authority = 'acme', private_key_type = 'ecdsa'
      where account_id = ${accountId} and id = ${id}`,
    )
    await planOrder(plane.db, accountId, id)
    return reserved
  }
  const statusOf = async (as: Account, { uri }: { uri: string }) => (await read(as, uri)).certificate_management_status
  return { challenges, pebble, plane, folder, hook, time, parts, managed, statusOf }
}
