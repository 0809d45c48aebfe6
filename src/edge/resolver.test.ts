import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openResolver } from './resolver.ts'

const fail = (error: Error) => assert.fail(error)
/** Reserved by RFC 6761: no resolver has an answer for it. */
const nowhere = { host: 'upstream.invalid', port: 80, tls: false }

async function newFile(t: { after: (work: () => Promise<void>) => void }): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-resolver-'))
  t.after(() => rm(folder, { recursive: true }))
  return join(folder, 'addresses.json')
}

test('an address stands for itself, and a name for what DNS says', async (t) => {
  const resolver = await openResolver(await newFile(t), () => {}, fail)
  const records = ['192.0.2.7', '[2001:db8::1]', 'localhost'].map((host) => ({ host, port: 80, tls: false }))
  await resolver.prepare(records)
  const [v4, v6, name] = records.map((record, index) => resolver.resolve(`backend.${index}`, record).address)
  assert.deepEqual([v4, v6], ['192.0.2.7', '2001:db8::1'])
  assert.match(name ?? '', /^(127\.0\.0\.1|::1)$/)
  await resolver.stop()
})

test('what is known of a name outlives the process and DNS; what is not in use any more is forgotten', async (t) => {
  const file = await newFile(t)
  await writeFile(file, JSON.stringify({ [nowhere.host]: '192.0.2.9', 'unused.invalid': '192.0.2.1' }))
  const resolver = await openResolver(file, () => {}, fail)
  await resolver.prepare([nowhere, { host: 'localhost', port: 1, tls: false }])
  assert.equal(resolver.resolve('backend.a', nowhere).address, '192.0.2.9')
  resolver.resolve('backend.b', { host: 'localhost', port: 1, tls: false })
  await resolver.stop()
  const saved = JSON.parse(await readFile(file, 'utf8'))
  assert.deepEqual(Object.keys(saved).sort(), ['localhost', nowhere.host])
})

test('a name that nobody knows has no address, and a file that is no longer readable is as none', async (t) => {
  const file = await newFile(t)
  for (const contents of ['{"upstream.inv', '{"upstream.invalid": "not an address"}', '[]']) {
    await writeFile(file, contents)
    const resolver = await openResolver(file, () => {}, fail)
    await resolver.prepare([nowhere])
    assert.equal(resolver.resolve('backend.a', nowhere).address, null)
    await resolver.stop()
  }
})

test('many names are looked up together: they cost the patience of one', async (t) => {
  const resolver = await openResolver(await newFile(t), () => {}, fail)
  const began = Date.now()
  await resolver.prepare(Array.from({ length: 200 }, (_, index) => ({ ...nowhere, host: `n${index}.invalid` })))
  assert.ok(Date.now() - began < 10_000, `${Date.now() - began} ms`)
  await resolver.stop()
})
