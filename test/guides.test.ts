// docs/guides, typed in as printed: the ids of a page stand for resources that exist. Pages that other tests or drills type are
// in `typedBy`; a block that none types says why.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { glob, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { blocksOf, commandsOf } from '../dev/page_blocks.ts'
import { newCertificate } from './harness/certificates.ts'
import { clientAuthority1 } from './harness/client_authorities.ts'
import { type Account, startControlPlane } from './harness/control_plane.ts'
import { freshHost, make, newBackend, newHttpsEdge, newPolicy, newRoute, newTcpEdge } from './harness/fixtures.ts'
import { program } from './harness/program.ts'
import { rolloutIn } from './isolation/rollouts.ts'

const root = new URL('..', import.meta.url).pathname
const read = (page: string) => readFile(join(root, page), 'utf8')
const pages = await Array.fromAsync(glob(['README.md', 'docs/{start,guides}/*.md'], { cwd: root }))
const typedBy: Readonly<Record<string, string>> = {
  'README.md': 'test/readme.test.ts',
  'docs/start/quickstart.md': 'test/readme.test.ts',
  'docs/start/tutorial.md': 'test/tutorial.test.ts',
  'docs/start/first-calls.md': 'test/docs.test.ts',
  'docs/guides/certificates.md': 'test/acme/page.test.ts',
  'docs/guides/clients.md': 'test/client/quick_starts.test.ts',
  'docs/guides/install-debian.md': 'dev/clean_install.ts',
  'docs/guides/add-an-edge-node.md': 'dev/two_machines.ts',
}
const linesOf = (page: string) => commandsOf(page).flatMap((block) => block.replaceAll('\\\n', ' ').trim().split('\n'))
const guides = (
  await Promise.all(
    pages
      .filter((page) => page.startsWith('docs/guides/') && !(page in typedBy))
      .map(async (page) => ({ page, commands: linesOf(await read(page)) })),
  )
).filter(({ commands }) => commands.length > 0)
// Before the first test: those that come after an await at this level may be too late for the runner.
const plane = await startControlPlane(
  { after },
  // Nothing is sent: docs/guides/alerts.md creates a destination for e-mail.
  {
    env: {
      GATEHOUSE_SMTP_URL: 'smtp://127.0.0.1:9',
      GATEHOUSE_SMTP_FROM: 'alerts@example.org',
      GATEHOUSE_SMTP_RECIPIENTS: '*',
    },
  },
)

/** Output, settings and configuration: shown, and not typed by a reader either. */
const shown = ['text', 'json', 'yaml', 'hcl', 'ini']

test('every block of the README, start and guides is typed by a test or a drill, is an example, or says why not', async () => {
  const silent: string[] = []
  for (const page of pages)
    for (const { language, text, comment } of blocksOf(await read(page))) {
      const isTyped = language === 'sh' && (page in typedBy || page.startsWith('docs/guides/'))
      const isExample = /^example: examples\//.test(comment)
      if (!isTyped && !isExample && !shown.includes(language) && !/^not typed: ./.test(comment))
        silent.push(`${page}: ${text.split('\n')[0]}`)
    }
  assert.deepEqual(silent, [])
})

test('what types a page names it', async () => {
  for (const [page, file] of Object.entries(typedBy)) {
    // Its commands are those of the README: test/docs.test.ts.
    const named = page === 'docs/start/quickstart.md' ? 'README.md' : page
    assert.ok((await read(file)).includes(named), `${file} does not name ${named}`)
  }
})

for (const { page, commands } of guides) {
  test(`the commands of ${page} work as printed`, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'gatehouse-guide-'))
    t.after(() => rm(folder, { recursive: true }))
    await layOut(folder)
    const account = await plane.newAccount()
    const ids = await makeResources(account)
    // Every page has an account of its own, and a host name belongs to one.
    const lines = commands.map((command) => withIds(command, ids).replaceAll('example.com', freshHost()))
    // No node is live, which --wait applied says with 10.
    const shell = `gatehouse() { "${process.execPath}" "${program}" "$@"; }
fine() { local code=$?; [ $code -eq 0 ] || [ $code -eq 10 ] || { echo "exit $code: $1"; exit 1; }; }
${lines.map((line) => `${line}\nfine ${JSON.stringify(line.slice(0, 60)).replaceAll('$', '\\$')}`).join('\n')}`
    const child = spawn('bash', ['-o', 'pipefail', '-c', shell], {
      cwd: folder,
      env: {
        ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GATEHOUSE_'))),
        HOME: folder,
        XDG_CONFIG_HOME: folder,
        GATEHOUSE_URL: plane.processes[0]?.origin ?? '',
        GATEHOUSE_API_KEY: account.token,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
    assert.equal(code, 0, `${stdout}\n${stderr}`)
  })
}

/** The files that guides name. */
async function layOut(folder: string): Promise<void> {
  const { certificate_pem, private_key_pem } = newCertificate(['app.example.com'])
  const imported = blocksOf(await read('docs/guides/import-and-prune-rules.md')).find(
    ({ language }) => language === 'text',
  )
  await writeFile(join(folder, 'chain.pem'), certificate_pem)
  await writeFile(join(folder, 'key.pem'), private_key_pem)
  await writeFile(join(folder, 'ca.pem'), clientAuthority1)
  await writeFile(join(folder, 'rules.txt'), imported?.text ?? '')
  const changes = blocksOf(await read('docs/guides/change-sets.md')).find(({ language }) => language === 'json')
  await writeFile(join(folder, 'partner.json'), changes?.text ?? '')
  for (const args of [
    ['init', '-q'],
    ['config', 'user.name', 'a'],
    ['config', 'user.email', 'a@b.c'],
  ])
    assert.equal(spawnSync('git', args, { cwd: folder }).status, 0)
}

type Ids = Readonly<Record<string, readonly string[]>>
async function makeResources(account: Account): Promise<Ids> {
  const policy = await newPolicy(account)
  const edge = await newHttpsEdge(account)
  await account('PATCH', edge.uri, { description: 'a change that can be undone' })
  const { body: events } = await account('GET', '/audit_events')
  const resources = {
    ipp: [policy],
    ipx: [await make(account, '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] })],
    bkdst: [await newBackend(account), await newBackend(account)],
    bkdhr: [await make(account, '/backends/http_response')],
    edghts: [edge],
    edgtcp: [await newTcpEdge(account)],
    edghtsrt: [await newRoute(account, {}, edge)],
    chs: [await make(account, '/change_sets', { changes: [{ operation: 'ip_policies.create' }] })],
    act: [await make(account, '/access_tests', { address: '192.0.2.1', target: { type: 'api' }, expect: 'allowed' })],
    ak: [await make(account, '/api_keys')],
    usr: [await make(account, '/users', { name: 'Lena', email: 'lena@example.com' })],
    bot: [await make(account, '/bot_users', { name: 'deploy' })],
    whd: [await make(account, '/webhook_destinations', { url: 'https://example.com/other' })],
    alr: [await make(account, '/alert_rules', { kind: 'backend_down' })],
    rd: [await make(account, '/reserved_domains', { domain: `${account.accountId.slice(3)}.example` })],
    ev: [events.audit_events.at(0)],
    ro: [{ id: await rolloutIn(() => plane.db, 'watching')(account) }],
  }
  return Object.fromEntries(Object.entries(resources).map(([prefix, made]) => [prefix, made.map(({ id }) => id)]))
}

/** The second of one kind in a command is another resource. */
function withIds(command: string, ids: Ids): string {
  const used: Record<string, number> = {}
  return command.replaceAll(/\b([a-z]+)_…/g, (_, prefix: string) => {
    const known = ids[prefix] ?? assert.fail(`no ${prefix}_… is made for guides`)
    const nth = used[prefix] ?? 0
    used[prefix] = nth + 1
    return known[nth % known.length] ?? ''
  })
}
