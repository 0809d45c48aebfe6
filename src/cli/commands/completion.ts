import { exits, usageFailure } from '../exits.ts'
import { commandFlags } from '../flags.ts'
import { below, findOperation, usableFlags } from '../operations.ts'
import { outputsOf, write } from '../output/output.ts'
import { type ClientConfig, readProfiles } from '../profiles.ts'

/** Each script asks the command itself, so it never has to be reinstalled for a new operation. */
const scripts: Record<string, string> = {
  bash: `# Put into ~/.bashrc:  source <(gatehouse completion bash)
_gatehouse() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do COMPREPLY+=("$line"); done \\
    < <("\${COMP_WORDS[0]}" completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  # No match: complete file names.
  [ \${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}"))
  return 0
}
complete -F _gatehouse gatehouse`,
  zsh: `#compdef gatehouse
# Put into ~/.zshrc, after compinit:  source <(gatehouse completion zsh)
_gatehouse() {
  local -a found
  found=("\${(@f)$("\${words[1]}" completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "\${found[*]}" ]]; then compadd -Q -- "\${found[@]}"; else _files; fi
}
compdef _gatehouse gatehouse`,
  fish: `# Put into ~/.config/fish/config.fish:  gatehouse completion fish | source
function __gatehouse_words
  set -l typed (commandline -opc) (commandline -ct)
  $typed[1] completion words -- $typed[2..-1] 2>/dev/null
end
complete -c gatehouse -a '(__gatehouse_words)'`,
}

export const completionHelp = `Completes commands, flags and their values when you press Tab.

  bash  source <(gatehouse completion bash)      in ~/.bashrc
  zsh   source <(gatehouse completion zsh)       in ~/.zshrc, after compinit
  fish  gatehouse completion fish | source       in ~/.config/fish/config.fish`

export async function completionCommand(
  config: ClientConfig,
  serverCommands: readonly string[],
  [shell = '', ...rest]: string[],
): Promise<number> {
  if (shell === 'words')
    write((await completionsOf(config, serverCommands, rest[0] === '--' ? rest.slice(1) : rest)).join('\n'))
  else if (Object.hasOwn(scripts, shell)) write(scripts[shell] ?? '')
  else if (shell === '' || shell === '--help' || shell === '-h') write(completionHelp)
  else throw usageFailure(`unknown shell '${shell}'; expected one of ${Object.keys(scripts).join(', ')}`)
  return exits.ok.code
}

const verbsOf: Record<string, string[]> = {
  login: [],
  logout: [],
  profiles: ['add', 'list', 'use', 'remove'],
  completion: Object.keys(scripts),
  state: ['dump', 'validate', 'schema', 'diff', 'apply', 'sync'],
  import: ['ngrok'],
  api: ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'],
  auth: ['status'],
  upgrade: ['check'],
  tail: [],
  explain: [],
  mcp: [],
}

/** Commands besides operations, in groups that have operations. */
const besideOperations: Record<string, string[]> = {
  'ip-restrictions': ['release'],
  'ip-policies': ['prune'],
  'audit-events': ['export'],
  rollouts: ['watch'],
  'edges https routes': ['list'],
}

async function completionsOf(
  config: ClientConfig,
  serverCommands: readonly string[],
  typed: readonly string[],
): Promise<string[]> {
  const current = typed.at(-1) ?? ''
  const before = typed.slice(0, -1)
  const candidates = current.startsWith('-')
    ? flagsAfter(before)
    : (valuesAfter(config, before) ?? (await idsAfter(config, before)) ?? wordsAfter(serverCommands, before))
  return [...new Set(candidates)].filter((candidate) => candidate.startsWith(current)).sort()
}

export function wordsAfter(serverCommands: readonly string[], before: readonly string[]): string[] {
  if (before.length === 0)
    return [...serverCommands, ...Object.keys(verbsOf), ...below([]).map(({ words: [first = ''] }) => first)]
  const own = before.length === 1 ? verbsOf[before[0] ?? ''] : undefined
  if (own) return own
  const further = below(before).map(({ words }) => words[before.length] ?? '')
  if (further.includes('get')) further.push('describe', 'edit')
  return [...further, ...(besideOperations[before.join(' ')] ?? [])]
}

/** In seconds, because Tab must not feel stuck. */
const idsTimeout = '2'

/** Matching ids from the service. None if it is unreachable, because a shell cannot show an error here. */
async function idsAfter(config: ClientConfig, before: readonly string[]): Promise<string[] | undefined> {
  const found = findOperation(before)
  if (!('operation' in found) || found.rest.some((each) => each.startsWith('-'))) return undefined
  const { operation, rest } = found
  const next = operation.positionals[rest.length]
  if (next?.place !== 'path') return undefined
  const [{ listOf, rowsOf }, { connect }] = await Promise.all([import('../names.ts'), import('../perform.ts')])
  const list = listOf(operation, next.name)
  if (!list) return undefined
  try {
    const given = Object.fromEntries(operation.positionals.map(({ name }, index) => [name, rest[index] ?? '']))
    return (await rowsOf(connect(config, { timeout: idsTimeout }), list, given)).map(({ id }) => id)
  } catch {
    return []
  }
}

function operationOf(before: readonly string[]) {
  const found = findOperation(before)
  return 'operation' in found ? found.operation : undefined
}

function flagsAfter(before: readonly string[]): string[] {
  const operation = operationOf(before)
  if (!operation) return ['--help']
  const own = operation.flags.flatMap(({ name, kind, nullable }) => [
    `--${name}`,
    ...(kind === 'boolean' || nullable ? [`--no-${name}`] : []),
  ])
  return [...own, ...usableFlags(operation).map((name) => `--${name}`)]
}

/** The values of the preceding flag, if it has a fixed set. */
function valuesAfter({ profilesFile }: ClientConfig, before: readonly string[]): string[] | undefined {
  const last = before.at(-1) ?? ''
  if (
    last === '--profile' ||
    (before[0] === 'profiles' && ['use', 'remove'].includes(before[1] ?? '') && before.length === 2)
  )
    return Object.keys(readProfiles(profilesFile).profiles)
  const operation = operationOf(before)
  if (operation && (last === '--output' || last === '-o')) return outputsOf(operation)
  if (!last.startsWith('--')) return undefined
  const flag = operation?.flags.find(({ name }) => `--${name}` === last)
  if (flag) return flag.kind === 'boolean' ? undefined : [...(flag.choices ?? [])]
  const own = commandFlags[last.slice(2) as keyof typeof commandFlags]
  return own?.type === 'string' ? [] : undefined
}
