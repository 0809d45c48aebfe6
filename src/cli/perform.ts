import { appliedFault, readMinNodes } from './applied.ts'
import { type Answer, type Call, type Connection, call } from './call.ts'
import { columnsOf } from './columns.ts'
import { exits, Failure, usageFailure } from './exits.ts'
import { readFlags } from './flags.ts'
import { helpOf } from './help.ts'
import { type Operation, usableFlags } from './operations.ts'
import { print, readOutput, write } from './output.ts'
import { allPages } from './pages.ts'
import { type ClientConfig, chooseProfile } from './profiles.ts'
import { startProgress, whileWaiting } from './progress.ts'
import { report } from './report.ts'
import { requestsOf } from './request.ts'
import { canAsk, confirm, log } from './terminal.ts'

export function connect(
  config: ClientConfig,
  { profile, timeout = '60', verbose = false }: { profile?: string; timeout?: string; verbose?: boolean },
): Connection {
  const seconds = Number(timeout)
  if (!(seconds > 0 && seconds <= 86_400)) throw usageFailure(`--timeout must be a number of seconds, not '${timeout}'`)
  return { ...chooseProfile(config, profile), timeoutMs: seconds * 1000, verbose }
}

/** Runs one operation with what was typed after its words. */
export async function perform(config: ClientConfig, operation: Operation, args: string[]): Promise<number> {
  const typed = readFlags(args, operation.flags, usableFlags(operation))
  if (typed.command.help) {
    write(helpOf(operation))
    return exits.ok.code
  }
  const output = readOutput(operation, typed.command.output)
  // Before anything is sent: a mistyped name should cost nothing.
  if (typed.command.columns) columnsOf(operation.id, operation.fields, typed.command.columns)
  const accept = output === 'text' ? 'text/plain' : 'application/json'
  const requests = (await requestsOf(operation, typed)).map((request) => ({ ...request, accept }))
  const minNodes = readMinNodes(typed.command['min-nodes'], requests[0]?.query?.wait === 'applied')
  const connection = connect(config, typed.command)
  if (operation.method === 'DELETE' && !typed.command.yes) await confirmDeletion(requests)
  if (operation.streams && requests[0])
    return (await import('./follow.ts')).follow(connection, requests[0], output === 'json')
  const progress = requests.length > 1 ? startProgress(operation.words.join(' '), requests.length) : undefined
  let code: number = exits.ok.code
  for (const request of requests) {
    try {
      const title = `${request.method} ${request.path}`
      const answer = await whileWaiting(
        title,
        typed.command.all ? allPages(connection, operation.listField ?? '', request) : call(connection, request),
      )
      const told = tell(operation, request, answer, minNodes)
      if (answer.text && request !== requests[0]) write({ yaml: '---', table: ' ' }[output as string] ?? '')
      if (answer.text) await print(output, operation, answer.text, typed.command.columns)
      else if (output === 'table') write(`deleted ${request.path.slice(1)}`)
      if (code === exits.ok.code) code = told
    } catch (error) {
      // One missing or refused id must not stop the others; failing to authenticate must.
      if (requests.length === 1 || !(error instanceof Failure) || !['refused', 'notFound'].includes(error.exit))
        throw error
      report(error, request.path)
      if (code === exits.ok.code) code = exits[error.exit].code
    }
    progress?.step(request.path)
  }
  progress?.end()
  return code
}

/** Asks people, not scripts: whoever pipes ids into the command cannot be asked. */
async function confirmDeletion(requests: readonly Call[]): Promise<void> {
  if (!canAsk()) return
  const what = requests.length === 1 ? requests[0]?.path.slice(1) : `these ${requests.length}`
  if (requests.length > 1) log(requests.map(({ path }) => `  ${path.slice(1)}`).join('\n'))
  if (!(await confirm(`Delete ${what}?`))) throw new Failure('usage', 'canceled; nothing was deleted')
}

/** Prints what the response headers say, and returns the exit code. */
function tell(operation: Operation, { query }: Call, { headers, text }: Answer, minNodes: number): number {
  for (const warning of headers.get('service-warning')?.split(/,\s*/) ?? []) {
    if (warning === 'secret=told_once')
      log('warning: an earlier attempt succeeded, and its secret is not shown again. Rotate it to get another.')
    else if (warning === 'token=told_once')
      log('warning: an earlier attempt succeeded, and its token is not shown again. Delete the key and create another.')
    else
      log(
        `warning: ${warning.replace('ip_restriction=', 'this call would be refused if this restriction were enforced: ')}`,
      )
  }
  if (operation.listField && text.includes('"next_page_uri":"http'))
    log('There are more results. Use --all to fetch every page.')
  if (text.includes('"secret":"whsec_')) log('Save the secret now. It will not be shown again.')
  if (text.includes('"token":"')) log('Save the token now. It will not be shown again.')
  const generation = headers.get('service-generation')
  if (query?.wait !== 'applied' || !generation) return exits.ok.code
  const [applied = 0, live = 0] = headers.get('service-applied')?.split('/').map(Number) ?? []
  const behind = headers.get('service-behind')?.split(/,\s*/) ?? []
  const fault = appliedFault({ applied, live, behind, generation }, minNodes)
  if (fault) report(fault)
  else log(`applied on ${applied}/${live} live edge nodes`)
  return fault ? exits[fault.exit].code : exits.ok.code
}
