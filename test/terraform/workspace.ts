// A folder with a configuration, and the real Terraform, which finds the provider of the program that is under test.
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Scope } from '../harness/control_plane.ts'
import { program } from '../harness/program.ts'

export const isTerraformMissing = spawnSync('terraform', ['-version']).error
  ? 'terraform is not installed: https://developer.hashicorp.com/terraform/install'
  : false

type Ended = { code: number; output: string }

export async function newWorkspace(scope: Scope, { origin, token }: { origin: string; token: string }) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-terraform-'))
  scope.after(() => rm(folder, { recursive: true }))
  await mkdir(join(folder, 'bin'))
  await writeFile(join(folder, 'bin/gatehouse'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
  await chmod(join(folder, 'bin/gatehouse'), 0o700)
  // Nothing of the person who runs the tests, and nothing that Terraform would fetch.
  const others = Object.entries(process.env).filter(([name]) => !/^(GATEHOUSE|TF|TERRAFORM)_/.test(name))
  const env = {
    ...Object.fromEntries(others),
    HOME: folder,
    PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
    GATEHOUSE_URL: origin,
    GATEHOUSE_API_KEY: token,
    CHECKPOINT_DISABLE: '1',
  }
  const execute = (file: string, args: string[]) =>
    new Promise<Ended>((resolve) =>
      execFile(file, args, { cwd: folder, env, maxBuffer: 2 ** 28 }, (error, stdout, stderr) =>
        resolve({ code: error ? Number(error.code ?? 1) : 0, output: stdout + stderr }),
      ),
    )
  const terraform = (command: string, ...args: string[]) => execute('terraform', [command, '-no-color', ...args])
  /** What it prints when all is well. */
  const ok = async (command: string, ...args: string[]): Promise<string> => {
    const { code, output } = await terraform(command, ...args)
    assert.equal(code, 0, output)
    return output
  }
  const installed = await execute(join(folder, 'bin/gatehouse'), ['terraform-provider', 'install'])
  await writeFile(join(folder, 'provider.tf'), installed.output.slice(installed.output.indexOf('terraform {')))
  return {
    folder,
    terraform,
    ok,
    write: (name: string, text: string) => writeFile(join(folder, name), text),
    /** Exits with 2 when something would change. */
    async isChange(): Promise<boolean> {
      const { code, output } = await terraform('plan', '-detailed-exitcode', '-input=false')
      assert.ok(code === 0 || code === 2, output)
      return code === 2
    },
    /** What it would do to each resource. */
    async planned(): Promise<{ output: string; changes: Change[] }> {
      const output = await ok('plan', '-input=false', '-out=plan')
      return { output, changes: JSON.parse(await ok('show', '-json', 'plan')).resource_changes }
    },
  }
}
export type Change = {
  type: string
  change: { actions: string[]; importing?: object; after_sensitive: Record<string, boolean> }
}
