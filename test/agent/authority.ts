import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

/** A certificate authority of our own, and what it signs. */
export async function authority(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-ca-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' })
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl('req', '-x509', ...newKey, '-subj', '/CN=Test CA', '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2')
  return {
    caFile: join(folder, 'ca.pem'),
    /** Expired since yesterday with -1 days. */
    async issue(name: string, { days = 2 } = {}) {
      openssl('req', ...newKey, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`)
      await writeFile(join(folder, 'names'), `subjectAltName=DNS:${name}`)
      const signed = [
        '-CA',
        'ca.pem',
        '-CAkey',
        'ca.key',
        '-CAcreateserial',
        '-days',
        String(days),
        '-extfile',
        'names',
      ]
      openssl('x509', '-req', '-in', `${name}.csr`, '-out', `${name}.pem`, ...signed)
      return { key: await readFile(join(folder, `${name}.key`)), cert: await readFile(join(folder, `${name}.pem`)) }
    },
  }
}
