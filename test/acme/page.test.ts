// docs/guides/certificates.md, typed in as printed: the names of the page's resources stand for those that the commands made.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { freshHost, make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { program } from '../harness/program.ts'
import { read, startAcmeInstallation, untilIssued } from './harness.ts'

const installation = await startAcmeInstallation({ after })
const { admin, processes, pebble, challenges, edge } = installation
const upstream = createServer((_request, response) => void response.end('hello from upstream\n')).listen(0, '127.0.0.1')
await once(upstream, 'listening')
after(() => void upstream.close())

test('the page leads from a new domain to a request that curl trusts', async (t) => {
  const page = await readFile(new URL('../../docs/guides/certificates.md', import.meta.url), 'utf8')
  const section = page.slice(page.indexOf('## From a domain'), page.indexOf('## How it works'))
  const commands = [...section.matchAll(/^```sh\n(.*?)^```/gms)].flatMap(([, block = '']) => block.trim().split('\n'))
  assert.equal(commands.length, 6, 'a new command needs its outcome here')

  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-page-'))
  t.after(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'root.pem'), await pebble.rootOfIssued())
  // Where DNS and the trust of the reader's machine would lead.
  await writeFile(
    join(folder, '.curlrc'),
    `cacert = ${folder}/root.pem\nconnect-to = "::127.0.0.1:${edge.httpsPort}"\nsilent\nshow-error\nfail\n`,
  )
  const domain = freshHost()
  const { port } = upstream.address() as { port: number }
  const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${port}` })
  const ids: Record<string, string> = { bkdst: backend.id }

  /** As a reader would type it. */
  async function type(command = ''): Promise<string> {
    const line = command
      .replaceAll('example.com', domain)
      .replaceAll(/\b([a-z]+)_…/g, (_, prefix) => ids[prefix] ?? assert.fail(`no ${prefix}_… is known yet`))
    const shell = `gatehouse() { "${process.execPath}" "${program}" "$@"; }\n${line}`
    const child = spawn('bash', ['-c', shell], {
      env: {
        PATH: process.env.PATH,
        CURL_HOME: folder,
        HOME: folder,
        GATEHOUSE_URL: processes[0]?.origin ?? '',
        GATEHOUSE_API_KEY: admin.token,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
    assert.equal(code, 0, `${line}\n${stdout}${stderr}`)
    return stdout
  }

  const [create, verify, newEdge, newRoute, get, request] = commands
  const idIn = (printed: string) => /\b(rd|edghts)_\w{26}\b/.exec(printed)?.[0] ?? assert.fail(printed)
  ids.rd = idIn(await type(create))
  const uri = `/reserved_domains/${ids.rd}`
  const reserved = await read(admin, uri)
  assert.deepEqual(reserved.certificate_management_policy, { authority: 'letsencrypt', private_key_type: 'ecdsa' })
  await challenges.setTxt(reserved.verification.name, reserved.verification.value)
  assert.match(await type(verify), /verified/)
  ids.edghts = idIn(await type(newEdge))
  await type(newRoute)
  await untilIssued(admin, { uri })
  assert.match(await type(get), /cert_\w{26}/)
  await poll(
    () => type(request).catch((error) => String(error)),
    (printed) => printed === 'hello from upstream\n',
    { everyMs: 500 },
  )
})
