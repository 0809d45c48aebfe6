import { operations } from '../generated/operations.ts'
import type { Rule } from '../rules.ts'
import { movedBy, type Planned, referenceTo } from './changes.ts'

const operationOf = new Map(operations.map(({ call, id }) => [call, id]))
/** Reads are sent as usual, because a form's changes may depend on the answer. */
const onlyAsks = /^POST \/(ip_checks|.*\/impact|change_sets\/\{id\}\/preview)$|dashboard_session/

type Sent = {
  request: Request & { rules?: readonly Rule[] }
  schemaPath: string
  params: { path?: object; query?: object }
}
const answer = (body: object): Response => new Response(JSON.stringify(body))

/**
 * Records a form's changes instead of making them. New resources have no id yet, so later changes get a reference that
 * the change set resolves.
 */
export function createRecord() {
  const changes: Planned[] = []
  async function take({ request, schemaPath, params }: Sent): Promise<Response | undefined> {
    const call = `${request.method} ${schemaPath}`
    if (onlyAsks.test(call)) return undefined
    // Forms with changes that belong together create a change set of their own and apply it.
    if (call === 'POST /change_sets') {
      const together: { changes: Planned[] } = await request.json()
      changes.push(...movedBy(together.changes, changes.length))
      return answer({ state: 'draft' })
    }
    if (call === 'POST /change_sets/{id}/apply') return answer({})
    const operation = operationOf.get(call)
    if (operation === undefined) throw new Error(`${call} is not an operation`)
    const parameters = { ...params.path, ...params.query } as NonNullable<Planned['parameters']>
    const { rules } = request
    const body = rules ? { rules } : JSON.parse((await request.text()) || 'null')
    const ifMatch = request.headers.get('If-Match')
    const id = (params.path as { id?: string } | undefined)?.id ?? referenceTo(changes.length)
    changes.push({
      operation,
      ...(Object.keys(parameters).length > 0 && { parameters }),
      ...(body && { body }),
      ...(ifMatch && { if_match: ifMatch }),
    })
    return answer({ id })
  }
  return { changes, take }
}
