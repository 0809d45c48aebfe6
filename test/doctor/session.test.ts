import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { recordSessions } from './session.ts'

test("docs/operate/doctor.md shows what doctor prints; 'npm run drill -- doctor-session' writes it again", async (t) => {
  const page = await readFile(new URL('../../docs/operate/doctor.md', import.meta.url), 'utf8')
  const shown = [...page.matchAll(/^```text\n(.*?)^```$/gms)].map(([, text = '']) => text.trimEnd())
  assert.deepEqual(shown, await recordSessions(t))
})
