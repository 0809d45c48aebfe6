import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Ended, gatehouse } from '../harness/command.ts'
import type { Scope } from '../harness/control_plane.ts'

export const run = promisify(execFile)

/** A folder with a pair of keys, and `gatehouse` with settings that encrypt to it. */
export async function backupFolder(scope: Scope) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-backup-test-'))
  scope.after(() => rm(folder, { recursive: true, force: true }))
  const [identity, recipients] = [join(folder, 'backup.key'), join(folder, 'recipients')]
  await run('age-keygen', ['-o', identity])
  const [, publicKey = ''] = /public key: (age1\w+)/.exec(await readFile(identity, 'utf8')) ?? []
  await writeFile(recipients, `# of a test\n${publicKey}\n`)
  await chmod(folder, 0o755)
  const command = (args: string[], databaseUrl: string, env: Record<string, string> = {}): Promise<Ended> =>
    gatehouse(args, {
      GATEHOUSE_DATABASE_URL: databaseUrl,
      GATEHOUSE_BACKUP_RECIPIENTS_FILE: recipients,
      GATEHOUSE_BACKUP_INCLUDE: 'none',
      ...env,
    })
  return { folder, identity, at: (name: string) => join(folder, name), command }
}
