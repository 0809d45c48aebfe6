#!/usr/bin/env node
// Imports nothing until the version is known: an older Node would fail on the first line that it cannot read, with a stack
// trace instead of an answer.
export {}

const oldest = '24.15'
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const [oldestMajor = 0, oldestMinor = 0] = oldest.split('.').map(Number)

if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) {
  const { run } = await import('./program.ts')
  await run(process.argv.slice(2))
} else {
  console.error(
    `gatehouse: needs Node ${oldest} or newer, and this is ${process.versions.node} (${process.execPath}). docs/guides/install-from-source.md says how to install it.`,
  )
  process.exitCode = 2
}
