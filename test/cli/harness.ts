import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type Ended, gatehouse } from '../harness/command.ts'
import { testRun } from '../harness/test_run.ts'

type Typed = { input?: string; env?: Record<string, string> }
export type Cli = {
  (args: string[], typed?: Typed): Promise<Ended>
  /** What it prints when all is well. */
  ok: (args: string[], typed?: Typed) => Promise<string>
  json: (args: string[], typed?: Typed) => Promise<ReturnType<typeof JSON.parse>>
  env: Record<string, string>
}

/** The `gatehouse` command with this token. Profiles of the person who runs the tests do not count. */
export function cliFor({ processes }: { processes: readonly { origin: string }[] }, { token }: { token: string }): Cli {
  const env = {
    GATEHOUSE_URL: processes[0]?.origin ?? '',
    GATEHOUSE_API_KEY: token,
    XDG_CONFIG_HOME: join(testRun.folder, 'no-profiles'),
  }
  const run = (args: string[], { input, env: more }: Typed = {}) =>
    gatehouse(args, { ...env, ...more }, undefined, input)
  const ok = async (args: string[], typed?: Typed) => {
    const { code, stdout, stderr } = await run(args, typed)
    assert.equal(code, 0, `gatehouse ${args.join(' ')}: ${stderr}`)
    return stdout
  }
  const json = async (args: string[], typed?: Typed) => JSON.parse(await ok([...args, '--output', 'json'], typed))
  return Object.assign(run, { ok, json, env })
}
