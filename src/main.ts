#!/usr/bin/env node
// Checks the Node version before any import: an older Node would fail to parse the modules and print a stack trace.
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
