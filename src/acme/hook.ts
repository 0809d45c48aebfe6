import { execFile } from 'node:child_process'
import { AcmeProblem } from './problems.ts'

const timeoutMs = 120_000
const maxOutputBytes = 64 * 1024

/**
 * The operator's own program, for dns-01: `<hook> present|cleanup <name of the TXT record> <its value>`, without a shell. It
 * gets nothing of our environment but the path, because that has the database's password in it, and ends within two
 * minutes. What it prints is for the operator, since there may be secrets in it: accounts see only that it failed.
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
