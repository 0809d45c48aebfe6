// The programs of docs/guides/clients.md, started as the page says. Go is tried where it is installed, which it is not in CI.
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { commandsOf } from '../../dev/page_blocks.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { compile, installClient } from './package.ts'

const root = new URL('../..', import.meta.url).pathname
const plane = await sharedControlPlane({ after })
const folder = await installClient({ after })
const commands = commandsOf(await readFile(join(root, 'docs/guides/clients.md'), 'utf8')).map((block) => block.trim())
await cp(join(root, 'examples/clients'), folder, { recursive: true })
await writeFile(join(folder, 'package.json'), '{"type": "module"}')

const tools = { node: 'TypeScript', python3: 'Python', go: 'Go' }

test('the page has a command for each language', () => {
  assert.deepEqual(
    commands.map((command) => command.split(' ')[0]),
    Object.keys(tools),
  )
})

for (const [tool, language] of Object.entries(tools)) {
  const isMissing = spawnSync(tool, [tool === 'go' ? 'version' : '--version']).error !== undefined
  test(`the quick start in ${language} works as printed`, {
    skip: isMissing && `${tool} is not installed`,
  }, async () => {
    const command = commands.find((each) => each.startsWith(`${tool} `)) ?? assert.fail()
    const account = await plane.newAccount()
    // More than one page, and those that were there stay.
    const others = await Promise.all(
      Array.from({ length: 101 }, async () => (await account('POST', '/ip_policies', {})).body.id as string),
    )
    const env = {
      ...process.env,
      PATH: `${process.execPath.replace(/\/[^/]+$/, '')}:${process.env.PATH}`,
      GATEHOUSE_URL: plane.processes[0]?.origin ?? '',
      GATEHOUSE_API_KEY: account.token,
    }
    const { stdout } = await promisify(execFile)('sh', ['-c', command], { cwd: folder, env })
    const [refusal, first, ...rest] = stdout.trim().split('\n')
    assert.equal(refusal, '409 ERR_CIDR_TAKEN')
    assert.match(first ?? '', /^ipp_\w+ staging$/)
    assert.deepEqual(rest.map((line) => line.split(' ')[0]).sort(), others.sort())
    const { body } = await account('GET', '/ip_policies?limit=1')
    assert.ok(others.includes(body.ip_policies[0].id), 'the policy was not deleted')
  })
}

test('the quick start in TypeScript compiles under strict', async () => {
  const compilerOptions = { module: 'nodenext', target: 'es2024', types: ['node'], strict: true, noEmit: true }
  const typeRoots = [join(root, 'node_modules/@types')]
  await writeFile(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: { ...compilerOptions, typeRoots, skipLibCheck: true },
      include: ['quickstart.ts'],
    }),
  )
  await compile(folder)
})
