import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { firstLoadOf } from '../../dev/sizes.ts'

const dist = new URL('../../dashboard/dist/', import.meta.url)
const read = (path: string) => readFile(new URL(path, dist), 'utf8')

test('the first load of the overview takes at most 180 KB of compressed scripts and styles', (t) => {
  const bytes = firstLoadOf(fileURLToPath(dist))
  t.diagnostic(`${bytes} bytes`)
  // Far fewer, and its files were not found.
  assert.ok(bytes > 100_000 && bytes <= 180_000, `${bytes} bytes`)
})

test('nothing in the page is inline, and nothing comes from elsewhere', async () => {
  const html = await read('index.html')
  assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)[^>]*>|<style|\son\w+=|\sstyle=/)
  const loaded = [...html.matchAll(/<(?!a\s)[^>]+(?:src|href)="([^"]+)"/g)].map(([, address]) => address ?? '')
  assert.ok(loaded.length > 2)
  for (const address of loaded) assert.match(address, /^\/dashboard\//)
})
