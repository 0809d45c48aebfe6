import { answerOf, api, type Shapes } from './client.ts'
import { Problem, SentForApproval } from './problem.ts'

type Planned = Shapes['ChangeSetCreate']['changes'][number]

/** Makes all changes or none. Resolves to the id of each affected resource. */
export async function changeTogether(description: string, changes: Planned[]): Promise<(string | null)[]> {
  const draft = await answerOf(api.POST('/change_sets', { body: { description, changes } })).catch(withoutPlace)
  if (draft.state === 'waiting') throw new SentForApproval(draft.id)
  const of = { params: { path: { id: draft.id } } }
  try {
    const { applied_resources } = await answerOf(api.POST('/change_sets/{id}/apply', { ...of, body: {} }))
    return applied_resources ?? []
  } catch (error) {
    // The form still has its input and creates another draft.
    await api.DELETE('/change_sets/{id}', of).catch(() => {})
    return withoutPlace(error)
  }
}

/** A form shows no list of changes, so this removes the change's number and keeps the text of the refusal. */
export function withoutPlace(error: unknown): never {
  if (!(error instanceof Problem)) throw error
  const { status, code, hint, details, errors } = error
  const { reason: message = error.message, field } = details
  throw new Problem({
    ...{ status, code: details.code ?? code, message, hint, details },
    errors: errors.map((each) =>
      each.field === field ? { ...each, msg: each.msg.replace(error.message, message) } : each,
    ),
  })
}
