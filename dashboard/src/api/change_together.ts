import { answerOf, api, type Shapes } from './client.ts'
import { Problem, SentForApproval } from './problem.ts'

type Planned = Shapes['ChangeSetCreate']['changes'][number]

/** Makes all of the changes or none. Resolves to what each was about: its id. */
export async function changeTogether(description: string, changes: Planned[]): Promise<(string | null)[]> {
  const draft = await answerOf(api.POST('/change_sets', { body: { description, changes } })).catch(withoutPlace)
  if (draft.state === 'waiting') throw new SentForApproval(draft.id)
  const of = { params: { path: { id: draft.id } } }
  try {
    const { applied_resources } = await answerOf(api.POST('/change_sets/{id}/apply', { ...of, body: {} }))
    return applied_resources ?? []
  } catch (error) {
    // The form still has what was typed, and makes another.
    await api.DELETE('/change_sets/{id}', of).catch(() => {})
    return withoutPlace(error)
  }
}

/** 'changes[0], static_backends.create: address must …' is about an input of the form, which has no list of changes. */
const place = /^changes\[\d+\], [\w.]+: /

function withoutPlace(error: unknown): never {
  if (!(error instanceof Problem)) throw error
  const { status, code, hint, details } = error
  throw new Problem({
    status,
    code: details.code ?? code,
    message: error.message.replace(place, ''),
    hint,
    details,
    errors: error.errors.map(({ field, msg }) => ({ field, msg: msg.replace(place, '') })),
  })
}
