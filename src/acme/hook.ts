import { execFile } from 'node:child_process'
import { AcmeProblem } from './problems.ts'

const timeoutMs = 120_000
const maxOutputBytes = 64 * 1024

/**
 * Runs the operator's program for dns-01, without a shell: `<hook> present|cleanup <TXT record name> <value>`. It
 * inherits only PATH, since our environment holds the database password, and has two minutes. Its output may contain
 * secrets, so only the operator sees it; accounts see only the failure.
 */
export function runHook(
  hook: string,
  verb: 'present' | 'cleanup',
  { name, value }: { name: string; value: string },
  signal?: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const env = { PATH: process.env.PATH ?? '/usr/bin:/bin' }
    const options = { env, timeout: timeoutMs, killSignal: 'SIGKILL' as const, maxBuffer: maxOutputBytes, signal }
    execFile(hook, [verb, name, value], options, (error, _stdout, stderr) => {
      if (!error) return resolve()
      if (signal?.aborted) return reject(signal.reason)
      const said = stderr.replaceAll(/[^\x20-\x7e]+/g, ' ').slice(-500)
      const reason = error.killed ? 'did not end within two minutes' : `ended with ${error.code ?? error.signal}`
      const message = `the operator's dns-01 hook could not ${verb} the TXT record ${name}`
      reject(new AcmeProblem('hook', message, { cause: new Error(`${hook} ${reason}: ${said}`) }))
    })
  })
}
