import { withoutPlace } from '../api/change_together.ts'
import { answerOf, api, recording, type Shapes } from '../api/client.ts'
import { Problem } from '../api/problem.ts'
import { movedBy, type Planned, without } from './changes.ts'
import { createRecord } from './record.ts'

/** Metadata of a change set that is still being assembled in the dashboard. */
export const draftMark = 'dashboard draft'
export const isDraft = ({ metadata }: { metadata?: string | undefined }): boolean => metadata === draftMark

export type Draft = Shapes['ChangeSetSummary']
const pathOf = (id: string) => ({ path: { id } })

/** The caller's drafts, oldest first. Usually one, but two browsers can create one at the same moment. */
export async function readDrafts(): Promise<Draft[]> {
  const [{ owner_id }, ...lists] = await Promise.all([
    answerOf(api.GET('/caller')),
    // A draft that needs approval starts in the state `waiting`.
    ...(['draft', 'waiting', 'approved'] as const).map((state) =>
      answerOf(api.GET('/change_sets', { params: { query: { state, limit: 100 } } })),
    ),
  ])
  return lists
    .flatMap(({ change_sets }) => change_sets)
    .filter((each) => isDraft(each) && each.author_id === owner_id)
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
}

/** The current draft with its ETag, which refuses the update if someone else was faster. */
async function current(id: string) {
  const { data, response } = await api.GET('/change_sets/{id}', { params: pathOf(id) })
  return { ...data, etag: response.headers.get('ETag') ?? '' }
}

const replace = (id: string, etag: string, body: { changes?: Planned[]; metadata?: string }) =>
  answerOf(api.PATCH('/change_sets/{id}', { params: { ...pathOf(id), header: { 'If-Match': etag } }, body }))

const mostAttempts = 4
/** Another tab has changed, applied or discarded it meanwhile. */
const isStale = (error: unknown): boolean =>
  error instanceof Problem &&
  ['ERR_PRECONDITION_FAILED', 'ERR_NOT_FOUND', 'ERR_CHANGE_SET_APPLIED'].includes(error.code)

/** Adds a form's changes to the person's draft, or creates one. */
export async function addToDraft(save: () => Promise<unknown>): Promise<void> {
  const { changes, take } = createRecord()
  await recording(take, save)
  if (changes.length === 0) throw new Error('the form has made no change')
  for (let attempt = 1; ; attempt++) {
    const draft = (await readDrafts())[0]
    try {
      return await (draft ? append(draft.id, changes) : begin(changes))
    } catch (error) {
      if (attempt === mostAttempts || !isStale(error)) throw error
    }
  }
}

async function begin(changes: Planned[]): Promise<void> {
  const body = { metadata: draftMark, changes }
  const { id } = await answerOf(api.POST('/change_sets', { body })).catch(withoutPlace)
  const [oldest] = await readDrafts()
  if (!oldest || oldest.id === id) return
  // Another tab created a draft too.
  await append(oldest.id, changes)
  await discard(id)
}

async function append(id: string, added: readonly Planned[]): Promise<void> {
  const { changes, etag } = await current(id)
  const all = [...changes, ...movedBy(added, changes.length)]
  await replace(id, etag, { changes: all }).catch((error) => {
    // Problems with earlier changes do not concern this form.
    if (error instanceof Problem && Number(error.details.change) < changes.length) throw error
    if (error instanceof Problem && error.details.code === 'ERR_PRECONDITION_FAILED') throw drafted(error)
    return withoutPlace(error)
  })
}

/** A form that relies on the current state, such as a group's members, cannot change it twice in one draft. */
const drafted = ({ status, details }: Problem): Problem =>
  new Problem({
    ...{ status, code: 'ERR_PRECONDITION_FAILED', details },
    message: 'Your draft already changes this.',
    hint: 'Apply the draft first, or take that change out of it.',
  })

/** The version on screen. Actions are refused if the draft has changed since. */
export type Shown = Pick<Shapes['ChangeSet'], 'id' | 'content_sha256'>

async function asShown({ id, content_sha256 }: Shown) {
  const now = await current(id)
  if (now.content_sha256 === content_sha256) return now
  throw new Problem({
    status: 412,
    code: 'ERR_PRECONDITION_FAILED',
    message: 'This change set has changed since it was shown. Nothing was done.',
    hint: 'It is shown again as it is now. Look at it, then repeat what you wanted to do.',
    details: {},
  })
}

/** Removing the last change deletes the draft. */
export async function takeOut(shown: Shown, index: number): Promise<void> {
  const { id, changes, etag } = await asShown(shown)
  const kept = without(changes, index)
  if (kept.length === 0) return discard(id)
  await replace(id, etag, { changes: kept })
}

/** Sends the same changes again, which accepts what others have changed meanwhile as the new base. */
export async function keepInSpiteOfConflicts(shown: Shown): Promise<void> {
  const { id, changes, etag } = await asShown(shown)
  await replace(id, etag, { changes })
}

/** Hands the draft over for review; forms no longer add to it. */
export async function sendForApproval(shown: Shown): Promise<void> {
  const { id, etag } = await asShown(shown)
  await replace(id, etag, { metadata: '' })
}

export async function discard(id: string): Promise<void> {
  await api.DELETE('/change_sets/{id}', { params: pathOf(id) })
}

export async function apply(shown: Shown, query: { confirm?: true }, confirmSeconds: number): Promise<void> {
  const { id, etag } = await asShown(shown)
  await answerOf(
    api.POST('/change_sets/{id}/apply', {
      params: { ...pathOf(id), query, header: { 'If-Match': etag } },
      body: confirmSeconds > 0 ? { confirm_within_seconds: confirmSeconds } : {},
    }),
  )
}
