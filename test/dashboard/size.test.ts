import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'

const dist = new URL('../../dashboard/dist/', import.meta.url)
const read = (path: string) => readFile(new URL(path, dist), 'utf8')

/** The script and its static imports; dynamic imports count for their own page only. */
async function scriptsOf(path: string, found = new Map<string, string>()): Promise<Map<string, string>> {
  if (found.has(path)) return found
  const text = await read(path)
  found.set(path, text)
  for (const [, name] of text.matchAll(/(?:from|import)\s*["']\.\/([\w.-]+\.js)["']/g))
    await scriptsOf(`assets/${name}`, found)
  return found
}

test('the first page and the overview take at most 160 KB of compressed JavaScript', async (t) => {
  const html = await read('index.html')
  const scripts = new Map<string, string>()
  for (const [, path = ''] of html.matchAll(/(?:src|href)="\/dashboard\/([\w/.-]+\.js)"/g))
    await scriptsOf(path, scripts)
  const [entry = ''] = [...scripts.values()].filter((text) => text.includes('overview-'))
  const [, overview = assert.fail('no chunk of the overview')] = /["'][^"']*(overview-[\w-]+\.js)["']/.exec(entry) ?? []
  await scriptsOf(`assets/${overview}`, scripts)
  assert.ok(scripts.size > 2)
  const bytes = [...scripts.values()].reduce((sum, text) => sum + gzipSync(text, { level: 9 }).length, 0)
  t.diagnostic(`${(bytes / 1024).toFixed(0)} KB in ${scripts.size} files`)
  assert.ok(bytes <= 160 * 1024, `${bytes} bytes`)
})

test('nothing in the page is inline, and nothing comes from elsewhere', async () => {
  const html = await read('index.html')
  assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)[^>]*>|<style|\son\w+=|\sstyle=/)
  const loaded = [...html.matchAll(/<(?!a\s)[^>]+(?:src|href)="([^"]+)"/g)].map(([, address]) => address ?? '')
  assert.ok(loaded.length > 2)
  for (const address of loaded) assert.match(address, /^\/dashboard\//)
})
