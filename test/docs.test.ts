import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { glob, readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'

import { blocksOf } from '../dev/page_blocks.ts'
import { readFlags } from '../src/cli/flags.ts'
import { findOperation, usableFlags } from '../src/cli/operations.ts'
import { clientSettings } from '../src/config/client.ts'
import { edgeSettings } from '../src/config/edge.ts'
import { settings } from '../src/config/server.ts'
import { idPrefixes } from '../src/kernel/ids.ts'
import { serverCommands } from '../src/server_commands.ts'
import { dataSources, resources } from '../src/terraform/catalog.ts'

import { startControlPlane } from './harness/control_plane.ts'
import { listDrills } from './harness/drills.ts'

const root = new URL('..', import.meta.url).pathname
const read = (file: string) => readFile(join(root, file), 'utf8')
const pages = await Array.fromAsync(glob(['*.md', 'docs/**/*.md', 'deploy/**/*.md', 'examples/*.md'], { cwd: root }))
/** The text of a page under a heading of the second level. */
const sectionOf = (page: string, heading: string): string =>
  page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? assert.fail(`no section is named ${heading}`)
const withoutCode = (text: string) => text.replaceAll(/^```.*?^```/gms, '')

test('every environment variable in the docs is read by the code', async () => {
  const nats = await read('deploy/nats/authorization.conf')
  const development = await read('dev/supplied_postgres.ts')
  const configs = await read('src/config/config.ts')
  const known = new Set([
    ...[settings, edgeSettings, clientSettings].flatMap(Object.keys).flatMap((name) => [name, `${name}_FILE`]),
    ...[...nats.matchAll(/\$(GATEHOUSE_\w+)/g)].map(([, name]) => name),
    ...[...development.matchAll(/process\.env\.(GATEHOUSE_\w+)/g)].map(([, name]) => name),
    ...(/readJoinToken\(.*?\}/.exec(configs)?.[0].match(/GATEHOUSE_\w+/g) ?? []),
  ])
  for (const page of pages) {
    for (const [name] of (await read(page)).matchAll(/\bGATEHOUSE_[A-Z0-9_]+\b/g))
      assert.ok(known.has(name), `${page} mentions ${name}, which nothing reads`)
  }
})

test('the quick start types the commands of the README, which a test runs', async () => {
  const commandsOf = (page: string) =>
    [...page.matchAll(/^```(?:sh)?\n(npx .*?|app\(\).*?|gatehouse\(\).*?)^```/gms)].map(([, text]) => text)
  const [start, readme] = await Promise.all(['docs/start/quickstart.md', 'README.md'].map(read))
  assert.equal(commandsOf(readme ?? '').length, 3)
  assert.deepEqual(commandsOf(start ?? ''), commandsOf(readme ?? ''))
})

const userFolders = /^docs\/(?:start|guides|reference|operate|explain)\//
test('pages for users name no test, drill or decision, except those that say what backs a promise', async () => {
  const backed = new Set(['docs/explain/security.md', 'docs/operate/capacity.md', 'docs/operate/reliability.md'])
  for (const page of pages.filter((file) => userFolders.test(file) && !backed.has(file)))
    for (const [name] of (await read(page)).matchAll(/\btest\/[a-z]\S*|\badr\/\d{4}\S*|npm run drill\S*/g))
      assert.fail(`${page} names ${name}`)
})

/** Commands that are no single operation of the API. */
const others = 'api auth completion explain import login logout mcp state status tail upgrade profiles'.split(' ')
const isOtherCommand = ([first = '', ...rest]: string[]): boolean =>
  [...others, ...serverCommands].includes(first) ||
  rest.some((word) => /^(describe|edit|export|prune|release|watch)$/.test(word))

test('every command of a page is one that the program has, with flags that it knows', async () => {
  let checked = 0
  const faults: string[] = []
  for (const page of pages.filter((file) => userFolders.test(file))) {
    const blocks = blocksOf(await read(page)).filter(({ language }) => language === '' || language === 'sh')
    for (const line of blocks.flatMap(({ text }) => text.replaceAll('\\\n', ' ').split('\n'))) {
      const command = /^gatehouse (?!\(|profiles|help)([^#|<>]+)/.exec(line.replaceAll(/\s#\s.*$/g, ''))?.[1] ?? ''
      const args = (command.match(/(?:'[^']*'|"[^"]*"|\S)+/g) ?? []).map((word) =>
        word.replaceAll(/['"](?=$|\s)|^['"]|(?<==)['"]/g, ''),
      )
      const found = findOperation(args)
      if (command && !('operation' in found) && !isOtherCommand(args)) faults.push(`${page}: ${line}: no such command`)
      // What is read from a file is not here.
      if (!('operation' in found) || /-file\b|--file\b/.test(line)) continue
      checked++
      try {
        readFlags(found.rest, found.operation.flags, usableFlags(found.operation))
      } catch (error) {
        faults.push(`${page}: ${line}: ${(error as Error).message}`)
      }
    }
  }
  assert.deepEqual(faults, [])
  assert.ok(checked > 40, `${checked} commands`)
})

test('every npm script that the docs name is in package.json', async () => {
  const { scripts } = JSON.parse(await read('package.json'))
  for (const page of pages) {
    for (const [, name = ''] of (await read(page)).matchAll(/npm run (?:--silent )?([a-z][\w:-]*)/g))
      assert.ok(Object.hasOwn(scripts, name), `${page} names npm run ${name}, which is not there`)
  }
})

test('every drill that the docs and comments name exists', async () => {
  const drills = new Set((await listDrills()).map(({ name }) => name))
  const sources = await Array.fromAsync(glob('{src,test,dev,bench}/**/*.ts', { cwd: root }))
  for (const page of [...pages, ...sources])
    for (const [, name = ''] of (await read(page)).matchAll(/npm run drill -- ([a-z][\w-]*)/g))
      assert.ok(drills.has(name), `${page} names the drill ${name}, which is not there`)
})

test('every block of commands for operators can be typed, which a drill does, or says why not', async () => {
  for (const page of pages.filter((file) => file.startsWith('docs/operate/')))
    for (const { language, text, comment } of blocksOf(await read(page)))
      if (language === '') assert.match(comment, /^not typed: ./, `${page}: ${text}`)
})

test('the rates in docs/reference/limits-and-retention.md are the defaults of their settings', async () => {
  const section = sectionOf(await read('docs/reference/limits-and-retention.md'), 'Rates')
  const rows = [...section.matchAll(/^\| .+ \| ([\d,]+)[^|]* \| `(GATEHOUSE_\w+)` \|$/gm)]
  assert.equal(rows.length, 5)
  for (const [, number = '', name = ''] of rows)
    assert.equal(number.replaceAll(',', ''), settings[name as keyof typeof settings].default, name)
})

const metricsOf = async (heading: string): Promise<string[]> =>
  [...sectionOf(await read('docs/reference/metrics.md'), heading).matchAll(/^\| `(gatehouse_\w+)` \|/gm)].map(
    ([, name = '']) => name,
  )

test('docs/reference/metrics.md explains every metric of the control plane, and no other', async (t) => {
  const { processes } = await startControlPlane(t)
  const exposed = await (await fetch(`${processes[0]?.origin}/metrics`)).text()
  const ours = [...exposed.matchAll(/^# TYPE (gatehouse_\w+)/gm)].map(([, name]) => name)
  assert.ok(ours.length > 0)
  assert.deepEqual((await metricsOf('Control plane')).sort(), ours.sort())
})

test('docs/reference/metrics.md explains every metric of an edge node, and no other', async () => {
  const node = ['status', 'requests', 'seen_requests'].map((file) => `commands/edge_node/${file}`)
  const agent = [
    'haproxy/config/limits',
    'haproxy/lines/frontend_metrics',
    'access_log/access_log',
    'metrics/exposition',
  ]
  const files = [...node, ...agent.map((file) => `agent/${file}`)]
  const sources = await Promise.all(files.map((file) => read(`src/${file}.ts`)))
  const names = [...sources.join('\n').matchAll(/(gatehouse_edge_\w+)(?::|\{)/g)].map(([, name]) => name)
  const exposed = [...new Set(names)]
  assert.ok(exposed.length > 0)
  assert.deepEqual((await metricsOf('Edge nodes')).sort(), exposed.sort())
})

test('no metric is exported by both programs, so a sum over all targets counts nothing twice', async () => {
  const nodes = new Set(await metricsOf('Edge nodes'))
  assert.deepEqual(
    (await metricsOf('Control plane')).filter((name) => nodes.has(name)),
    [],
  )
})

test('every metric in the docs is one of those', async () => {
  const known = new Set([...(await metricsOf('Control plane')), ...(await metricsOf('Edge nodes'))])
  const databases = new Set(['gatehouse_app', 'gatehouse_owner', 'gatehouse_blobs'])
  const terraform = new Set([...resources(), ...dataSources()].map(({ typeName }) => typeName))
  for (const page of pages.filter((file) => file !== 'CHANGELOG.md')) {
    for (const [name] of withoutCode(await read(page)).matchAll(/(?<=`)gatehouse_[a-z0-9_]*[a-z0-9](?=[`{])/g))
      assert.ok(
        [known, databases, terraform].some((names) => names.has(name)),
        `${page} names ${name}: nothing has it`,
      )
  }
})

test('docs/reference/api-conventions.md has the prefix of every kind of id', async () => {
  const section = sectionOf(await read('docs/reference/api-conventions.md'), 'Ids and times')
  const named = [...section.matchAll(/`([a-z]+)_`/g)].map(([, prefix]) => prefix)
  assert.deepEqual(named.sort(), Object.keys(idPrefixes).sort())
})

test('docs/guides/dashboard.md describes every page of the menu, in its order', async () => {
  // Read as text: the module imports the pages, which need a browser.
  const titles = [...(await read('dashboard/src/pages.tsx')).matchAll(/^ {4}title: '(.+)',$/gm)].map(
    ([, title]) => title,
  )
  const rows = [...(await read('docs/guides/dashboard.md')).matchAll(/^\| ([A-Z][\w ]+) \|/gm)].map(
    ([, title]) => title,
  )
  assert.ok(titles.length > 10)
  assert.deepEqual(rows, titles)
})

test('the first calls in docs/start/first-calls.md work as printed', async (t) => {
  if (spawnSync('curl', ['--version']).error) return t.skip('curl is not installed')
  const { processes, newAccount } = await startControlPlane(t)
  const { token } = await newAccount()
  const [, commands = ''] = /^```sh\n(.*?)^```/ms.exec(await read('docs/start/first-calls.md')) ?? []
  const { stdout, stderr } = spawnSync('sh', ['-eu', '-c', commands.replaceAll('curl -sS', 'curl -sS --fail')], {
    encoding: 'utf8',
    env: { ...process.env, GATEHOUSE_URL: processes[0]?.origin, GATEHOUSE_API_KEY: token },
  })
  assert.equal(stderr, '')
  const [created, got, listed, updated, deleted] = stdout.trim().split('\n')
  assert.match(created ?? '', /"token":"gatehouse_/)
  assert.match(got ?? '', /"description":"nightly backup".*"token":null/)
  assert.match(listed ?? '', /^\{"keys":\[.*"next_page_uri":null\}$/)
  assert.match(updated ?? '', /"description":"weekly backup","metadata":"team=storage"/)
  assert.equal(deleted, '204')
})

test('every link leads to a page, and to a heading on it', async () => {
  for (const page of pages) {
    for (const [, target = ''] of withoutCode(await read(page)).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue
      const [path = '', heading] = target.split('#')
      const file = path ? join(dirname(page), path) : page
      assert.ok(existsSync(join(root, file)), `${page} links to ${target}, which is not there`)
      if (heading) assert.ok(anchorsOf(await read(file)).includes(heading), `${page}: no heading is #${heading}`)
    }
  }
})

test('every file that the docs name is there', async () => {
  for (const page of pages) {
    for (const [, path = ''] of (await read(page)).matchAll(
      /`((?:src|test|dev|bench|migrations|deploy|examples)\/[\w./-]*)`/g,
    ))
      assert.ok(existsSync(join(root, path)), `${page} names ${path}, which is not there`)
  }
})

const decisions = pages.filter((file) => /^docs\/adr\/\d/.test(file))

test('every decision is listed in docs/adr/README.md, has the same sections, and fits on a page', async () => {
  const index = await read('docs/adr/README.md')
  for (const page of decisions) {
    const text = await read(page)
    assert.ok(index.includes(`](${basename(page)}): ${/^# \d{4}: (.+)/.exec(text)?.[1]} |`), `no line is about ${page}`)
    assert.deepEqual(
      [...text.matchAll(/^## (.+)$/gm)].map(([, title]) => title),
      ['Context', 'Decision', 'Consequences', 'What would change our mind'],
      page,
    )
    const words = text.split(/\s+/).length
    assert.ok(words <= 480, `${page} has ${words} words`)
  }
})

test('every decision that a comment names is there', async () => {
  const numbers = new Set(decisions.map((page) => basename(page).slice(0, 4)))
  const code = [
    '{src,test,dev,bench,deploy}/**/*.{ts,lua,conf,sh,service}',
    'migrations/*.sql',
    'dashboard/src/**/*.{ts,tsx}',
  ]
  for (const file of await Array.fromAsync(glob(code, { cwd: root })))
    for (const [name, number = ''] of (await read(file)).matchAll(/(?:docs\/adr\/|ADR )(\d{4})/g))
      assert.ok(numbers.has(number), `${file} names ${name}, which is not there`)
})

test('every package is listed in docs/contribute/dependencies.md, and no other', async () => {
  const used = (
    await Promise.all(['package.json', 'dashboard/package.json', 'clients/typescript/package.json'].map(read))
  ).flatMap((text) => {
    const { dependencies, devDependencies, optionalDependencies } = JSON.parse(text)
    return Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies })
  })
  const rows = (await read('docs/contribute/dependencies.md')).matchAll(/^\| (`.+?) \|/gm)
  const listed = [...rows].flatMap(([, packages = '']) => [...packages.matchAll(/`([^`]+)`/g)].map(([, name]) => name))
  assert.deepEqual([...new Set(listed)].sort(), [...new Set(used)].sort())
})

/** As GitHub makes them of headings. */
function anchorsOf(markdown: string): string[] {
  return [...withoutCode(markdown).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-'),
  )
}
