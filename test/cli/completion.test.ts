// Completion, in real shells.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { poll } from '../harness/poll.ts'
import { program } from '../harness/program.ts'
import { testRun } from '../harness/test_run.ts'

const folder = join(testRun.folder, 'completion')
await mkdir(folder, { recursive: true })
await writeFile(join(folder, 'gatehouse'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
await chmod(join(folder, 'gatehouse'), 0o755)
const env = {
  ...process.env,
  PATH: `${folder}:${process.env.PATH}`,
  XDG_CONFIG_HOME: folder,
  HOME: folder,
  TERM: 'dumb',
}

test('bash completes words, flags and values when a person presses Tab', async () => {
  const shell = spawn('script', ['-qec', 'bash --norc --noprofile -i', '/dev/null'], { env })
  let output = ''
  shell.stdout.on('data', (chunk) => {
    output += chunk
  })
  // A Tab is a mere character until bash has its completions and reads the line itself.
  shell.stdin.write('source <(gatehouse completion bash); PS1=; echo "rea"dy\n')
  await poll(() => output.includes('ready'))
  // Ctrl-A puts the cursor in front, so that what Tab made of the line is shown instead of run.
  shell.stdin.write('gatehouse ip-restr\tcre\t--ty\tend\t\u0001echo "line: \u0005"\n')
  await poll(
    () => output,
    (shown) => /line: gatehouse ip-restrictions create --type endpoints/.test(shown),
  )
  shell.stdin.end('exit\n')
  await once(shell, 'exit')
})

/** Calls the function that the shell would call, with what it would tell it. */
const askBash = (line: string) => {
  const words = line.split(' ')
  const program = `source <(gatehouse completion bash); COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _gatehouse; printf '%s\\n' "\${COMPREPLY[@]}"`
  return spawnSync('bash', ['-c', program], { env, encoding: 'utf8' }).stdout.trim().split('\n')
}

test('bash offers matching groups, verbs, flags and choices', () => {
  const offers = (line: string, ...some: string[]) => {
    const offered = askBash(line)
    for (const each of some) assert.ok(offered.includes(each), `${line}: ${offered.join(' ')}`)
    const typed = line.split(' ').at(-1) ?? ''
    for (const each of offered) assert.ok(each.startsWith(typed), `${line}: ${each}`)
  }
  offers('gatehouse ip-', 'ip-checks', 'ip-policies', 'ip-restrictions')
  offers('gatehouse edges tcp ', 'backend', 'create', 'delete', 'get', 'ip-restriction', 'list', 'update')
  offers('gatehouse ip-restrictions ', 'create', 'release')
  offers('gatehouse state ', 'dump', 'diff', 'apply', 'sync')
  offers('gatehouse api-keys create --', '--description', '--no-description', '--output')
  assert.deepEqual(askBash('gatehouse api-keys list --output '), ['ids', 'json', 'table', 'yaml'])
})

for (const [shell, program] of [
  ['zsh', 'autoload -Uz compinit; compinit -u; source <(gatehouse completion zsh); whence -w _gatehouse'],
  ['fish', "gatehouse completion fish | source; complete -C 'gatehouse ip-restrictions create --type '"],
] as const) {
  test(`${shell} understands its script`, (t) => {
    const { error, stdout, stderr, status } = spawnSync(shell, ['-c', program], { env, encoding: 'utf8' })
    if (error) return t.skip(`${shell} is not installed`)
    assert.equal(status, 0, stderr)
    assert.match(stdout, shell === 'zsh' ? /_gatehouse: function/ : /^endpoints/m)
  })
}
