import { appliedOf } from '../../clients/typescript/src/applied.ts'
import { appliedFault, readMinNodes } from './applied.ts'
import { type Answer, type Call, type Connection, call, SentForApproval } from './call.ts'
import { exits, Failure, usageFailure } from './exits.ts'
import { readFlags, type Typed } from './flags.ts'
import { helpOf } from './help.ts'
import type { Operation } from './operation.ts'
import { usableFlags } from './operations.ts'
import { readView, render, type View, write } from './output/output.ts'
import { startProgress, whileWaiting } from './output/progress.ts'
import { canAsk, confirm, log } from './output/terminal.ts'
import { allPages } from './pages.ts'
import { type ClientConfig, chooseProfile } from './profiles.ts'
import { report } from './report.ts'
import { looksLikeId, requestsOf } from './request.ts'

export function connect(
  config: ClientConfig,
  { profile, timeout = '60', verbose = false }: { profile?: string; timeout?: string; verbose?: boolean },
): Connection {
  const seconds = Number(timeout)
  if (!(seconds > 0 && seconds <= 86_400)) throw usageFailure(`--timeout must be a number of seconds, not '${timeout}'`)
  return { ...chooseProfile(config, profile), timeoutMs: seconds * 1000, verbose }
}

/** The service itself waits for two minutes. */
const releasedTimeout = '180'

export async function perform(config: ClientConfig, operation: Operation, args: string[]): Promise<number> {
  const typed = readFlags(args, operation.flags, usableFlags(operation))
  if (typed.command.help) {
    write(helpOf(operation))
    return exits.ok.code
  }
  const view = await readView(operation, typed.command)
  const isReleaseAwaited = typed.given.some(({ flag, value }) => flag.name === 'wait' && value === 'released')
  const connection = connect(config, { ...(isReleaseAwaited && { timeout: releasedTimeout }), ...typed.command })
  const requests = await requestsFor(connection, operation, typed, view)
  const minNodes = readMinNodes(typed.command['min-nodes'], requests[0]?.query?.wait !== undefined)
  const isDryRun = requests[0]?.query?.dry_run === true
  const { all, filter, 'sort-by': sortBy, watch: isWatched } = typed.command
  const areAllNeeded = Boolean(all || filter || sortBy)
  const send = (request: Call) =>
    areAllNeeded ? allPages(connection, operation.listField ?? '', request) : call(connection, request)
  if (operation.method === 'DELETE' && !typed.command.yes && !isDryRun) await confirmDeletion(requests)
  const [first] = requests
  if (operation.streams && first)
    return (await import('./commands/follow.ts')).follow(connection, first, view.output === 'json')
  if (isWatched && first) {
    const { watch } = await import('./commands/watch.ts')
    return watch(operation.words.join(' '), async () => render(view, operation, (await send(first)).text))
  }
  return performAll({ operation, view, minNodes }, requests, send)
}

/** Replaces names by ids, which requires look-ups. */
async function requestsFor(connection: Connection, operation: Operation, typed: Typed, { output }: View) {
  const isNamed = typed.positionals.some((value, index) => {
    return operation.positionals[index]?.place === 'path' && !looksLikeId(value)
  })
  const isComplete = typed.positionals.length === operation.positionals.length
  const positionals =
    isNamed && isComplete
      ? await (await import('./names.ts')).withIds(connection, operation, typed.positionals)
      : typed.positionals
  const accept = output === 'text' ? 'text/plain' : 'application/json'
  return (await requestsOf(operation, { ...typed, positionals })).map((request) => ({ ...request, accept }))
}

async function performAll(
  { operation, view, minNodes }: { operation: Operation; view: View; minNodes: number },
  requests: readonly Call[],
  send: (request: Call) => Promise<Answer>,
): Promise<number> {
  const progress = requests.length > 1 ? startProgress(operation.words.join(' '), requests.length) : undefined
  let code: number = exits.ok.code
  for (const request of requests) {
    try {
      const answer = await whileWaiting(`${request.method} ${request.path}`, send(request))
      const told = tell(operation, request, answer, minNodes)
      if (answer.text && request !== requests[0]) write({ yaml: '---', table: ' ' }[view.output as string] ?? '')
      await show(operation, view, request, answer.text)
      if (isDraftOfRevert(operation, view, request)) await showRevert(answer.text, send)
      if (code === exits.ok.code) code = told
    } catch (error) {
      if (error instanceof SentForApproval && ['json', 'yaml'].includes(view.output))
        write(await render(view, operation, error.text))
      // One missing or refused id must not stop the others; failing to authenticate must.
      if (
        requests.length === 1 ||
        !(error instanceof Failure) ||
        !['refused', 'notFound', 'waiting'].includes(error.exit)
      )
        throw error
      report(error, request.path)
      if (code === exits.ok.code) code = exits[error.exit].code
    }
    progress?.step(request.path)
  }
  progress?.end()
  return code
}

async function show(operation: Operation, view: View, { path, query }: Call, text: string): Promise<void> {
  const isForPeople = !['json', 'yaml'].includes(view.output)
  if (query?.dry_run === true && isForPeople) return showDryRun(text)
  if (operation.id === 'change_sets.preview' && isForPeople) {
    const { describeDryRun } = await import('./output/differences.ts')
    return write(describeDryRun(JSON.parse(text)))
  }
  // The effect of undoing is shown below; the draft itself adds nothing.
  if (isDraftOfRevert(operation, view, { query })) return
  const shown = text && (await render(view, operation, text))
  if (shown) write(shown)
  else if (text && view.output === 'table') log('No results.')
  else if (view.output === 'table') write(`deleted ${path.slice(1)}`)
}

const isDraftOfRevert = ({ id }: Operation, { output, template }: View, { query }: Pick<Call, 'query'>): boolean =>
  id.endsWith('.revert') && !query?.dry_run && output === 'table' && template === undefined

/** Shows the current effect of undoing, and how to undo: the draft alone undoes nothing. */
async function showRevert(text: string, send: (request: Call) => Promise<Answer>): Promise<void> {
  const { describeDryRun } = await import('./output/differences.ts')
  const { id } = JSON.parse(text)
  const preview = await send({ method: 'POST', path: `/change_sets/${id}/preview`, body: '{}' })
  write(describeDryRun(JSON.parse(preview.text)))
  log(`Nothing has been undone yet. To do it:\n  gatehouse change-sets apply ${id}`)
}

/** The effect of a change. Omits the note that nothing was done, because the differences may go to a file. */
export async function showDryRun(text: string): Promise<void> {
  const { describeDryRun } = await import('./output/differences.ts')
  write(describeDryRun(JSON.parse(text)))
  log('This was a dry run: nothing was changed.')
}

/** Asks only at a terminal: a pipe cannot answer. */
async function confirmDeletion(requests: readonly Call[]): Promise<void> {
  if (!canAsk()) return
  const what = requests.length === 1 ? requests[0]?.path.slice(1) : `these ${requests.length}`
  if (requests.length > 1) log(requests.map(({ path }) => `  ${path.slice(1)}`).join('\n'))
  if (!(await confirm(`Delete ${what}?`))) throw new Failure('usage', 'canceled; nothing was deleted')
}

/** Prints the information in the response headers, and returns the exit code. */
function tell(operation: Operation, { query }: Call, { headers, text }: Answer, minNodes: number): number {
  for (const warning of headers.get('service-warning')?.split(/,\s*/) ?? []) {
    if (warning === 'secret=told_once')
      log('warning: an earlier attempt succeeded, and its secret is not shown again. Rotate it to get another.')
    else if (warning === 'token=told_once')
      log('warning: an earlier attempt succeeded, and its token is not shown again. Delete the key and create another.')
    else if (warning === 'link=told_once')
      log('warning: an earlier attempt succeeded, and its link is not shown again. Invite the user again.')
    else
      log(
        `warning: ${warning.replace('ip_restriction=', 'this call would be refused if this restriction were enforced: ')}`,
      )
  }
  if (operation.listField && text.includes('"next_page_uri":"http'))
    log('There are more results. Use --all to fetch every page.')
  if (text.includes('"secret":"whsec_')) log('Save the secret now. It will not be shown again.')
  if (text.includes('"link":"http')) log('Send the link now. It will not be shown again.')
  if (text.includes('"token":"')) log('Save the token now. It will not be shown again.')
  const applied = query?.wait !== undefined ? appliedOf(headers) : undefined
  if (!applied) return exits.ok.code
  const fault = appliedFault(applied, minNodes)
  if (fault) report(fault)
  else log(`applied on ${applied.applied}/${applied.live} live edge nodes`)
  return fault ? exits[fault.exit].code : exits.ok.code
}
