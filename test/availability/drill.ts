// `npm run drill -- availability [--minutes N] [--older FILE] [rehearsal…]`: the reference architecture of docs/operate/high-availability.md
// in network namespaces, under faults: no acknowledged change is lost, and never two primaries are written to. Needs root,
// and Debian's patroni, etcd-server, keepalived, nftables and postgresql. Rehearsals: ledger, failover, histories, partitions,
// rolling, soak, and skew with `--older`, the main.js of another build.
import { spawnSync } from 'node:child_process'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ensureTestProgram } from '../../dev/bundle.ts'
import { putEnginesOnPath } from '../../dev/engines.ts'
import { enter, isInside } from './enter.ts'

const path = ':/usr/lib/postgresql/15/bin:/usr/sbin:/sbin'
if (!isInside()) {
  process.env.PATH += path
  const needed = ['patroni', 'etcd', 'keepalived', 'nft', 'postgres', 'unshare', 'nsenter', 'setpriv']
  const missing = needed.filter((name) => spawnSync('which', [name]).status !== 0)
  if (missing.length > 0 || process.getuid?.() !== 0) {
    console.error(`The drill runs as root, on Debian 12 with ${missing.join(', ') || 'everything that it needs'}.
apt install --no-install-recommends patroni python3-etcd etcd-server keepalived nftables postgresql-15`)
    process.exit(2)
  }
  await ensureTestProgram()
  process.exit(await enter(import.meta.filename, process.argv.slice(2)))
}
const { startCluster } = await import('./cluster.ts')
const { rehearsals } = await import('./rehearsals.ts')
const { versionSkew } = await import('./rolling.ts')
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { minutes: { type: 'string', default: '2' }, keep: { type: 'boolean' }, older: { type: 'string' } },
})
putEnginesOnPath()
const folder = await mkdtemp(join(tmpdir(), 'gatehouse-availability-'))
await chmod(folder, 0o755)
const began = performance.now()
const cluster = await startCluster(folder)
console.log(`everything runs after ${Math.round((performance.now() - began) / 1_000)} s; logs are in ${folder}`)
let failed = 0
const all = values.older ? { ...rehearsals, skew: { rehearse: versionSkew(values.older) } } : rehearsals
try {
  for (const [name, { rehearse, control }] of Object.entries<(typeof rehearsals)[string]>(all)) {
    if (positionals.length > 0 && !positionals.includes(name)) continue
    for (const [what, run] of Object.entries({ [name]: rehearse, [`control of ${name}`]: control })) {
      if (!run) continue
      const began = performance.now()
      console.log(`\n── ${what}`)
      const faults = await run(cluster, Number(values.minutes) * 60_000).catch((error: Error) => [`${error.stack}`])
      for (const fault of faults.slice(0, 20)) console.error(`   ${fault}`)
      const after = `after ${Math.round((performance.now() - began) / 1_000)} s`
      console.log(faults.length === 0 ? `   held, ${after}` : `   did not hold: ${faults.length} faults, ${after}`)
      failed += faults.length
    }
  }
} finally {
  await cluster.stop()
  if (!values.keep && failed === 0) await rm(folder, { recursive: true, force: true })
}
process.exit(failed === 0 ? 0 : 1)
