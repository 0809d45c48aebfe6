import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { requireHaproxy } from './version.ts'

const folder = await mkdtemp(join(tmpdir(), 'gatehouse-version-'))
after(() => rm(folder, { recursive: true }))

async function programThatPrints(text: string): Promise<string> {
  const file = join(await mkdtemp(join(folder, 'program-')), 'haproxy')
  await writeFile(file, `#!/bin/sh\necho '${text}'\n`)
  await chmod(file, 0o755)
  return file
}

test('an old or missing HAProxy is refused with a hint', async () => {
  const old = await programThatPrints('HAProxy version 2.6.12-1+deb12u3 2025/10/03 - https://haproxy.org/')
  await assert.rejects(requireHaproxy(old), /HAProxy 2\.6\.12-1\+deb12u3 is too old: Gatehouse needs 3\.4/)
  await assert.rejects(requireHaproxy('/nowhere/haproxy'), /cannot run '\/nowhere\/haproxy'.*Install HAProxy 3\.4/)
  await assert.rejects(requireHaproxy(await programThatPrints('hello')), /does not say its version: hello/)
})

test('3.4 and everything newer is accepted', async () => {
  for (const version of ['3.4.7-1', '3.10.0', '4.0-dev3'])
    assert.equal(await requireHaproxy(await programThatPrints(`HAProxy version ${version} 2026/10/14`)), version)
})
