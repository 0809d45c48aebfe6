// From a reserved domain to a page in a browser that trusts the authority's root, as browsers trust those of the world.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { openBrowser } from '../dashboard/browser.ts'
import { freshHost } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { managedPolicy, serveNames, startAcmeInstallation, untilIssued, visit } from './harness.ts'

const installation = await startAcmeInstallation({ after })
const { admin, challenges, pebble, edge } = installation
const root = await pebble.rootOfIssued()

/** A home folder whose browser trusts these roots, and no others beyond those of the world. */
async function homeThatTrusts(roots: readonly string[]): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'gatehouse-home-'))
  after(() => rm(home, { recursive: true, force: true }))
  const database = join(home, '.pki/nssdb')
  await mkdir(database, { recursive: true })
  const certutil = (...args: string[]) => promisify(execFile)('certutil', ['-d', `sql:${database}`, ...args])
  await certutil('-N', '--empty-password')
  for (const [index, pem] of roots.entries()) {
    await writeFile(join(home, 'root.pem'), pem)
    await certutil('-A', '-n', `root ${index}`, '-t', 'C,,', '-i', join(home, 'root.pem'))
  }
  return home
}

/** Every name leads to the edge node; nothing else is different from a browser in the world. */
async function openIn(home: string) {
  const rules = `--host-resolver-rules=MAP * 127.0.0.1:${edge.httpsPort}`
  const browser = await openBrowser({ after }, [rules], { HOME: home }, 'whole')
  return browser.newPage()
}

test('from POST /reserved_domains to a page that a browser trusts by the root of the authority', async () => {
  const domain = freshHost()
  const { status, text, body } = await admin('POST', '/reserved_domains', { domain, ...managedPolicy })
  assert.equal(status, 201, text)
  await challenges.setTxt(body.verification.name, body.verification.value)
  assert.equal((await admin('POST', `${body.uri}/verify`, {})).body.verification.status, 'verified')
  await serveNames(admin, [domain])
  const { issued } = await untilIssued(admin, body)
  await poll(
    () => visit(installation, domain, root).catch(() => undefined),
    (seen) => seen?.serial === issued.serial_number,
  )

  const page = await openIn(await homeThatTrusts([root]))
  const response = await page.goto(`https://${domain}/`)
  assert.equal(response?.status(), 200)
  assert.equal(await response?.text(), 'hello')
  const security = await response?.securityDetails()
  assert.match(security?.issuer ?? '', /Pebble Intermediate/)
  assert.equal(await page.evaluate('isSecureContext'), true)

  // Without the root the same page is refused: it was the root that made the difference.
  const stranger = await openIn(await homeThatTrusts([]))
  await assert.rejects(stranger.goto(`https://${domain}/`), /ERR_CERT_AUTHORITY_INVALID/)
})
