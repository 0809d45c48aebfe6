import { queryOptions, type UseMutationResult, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useNavigate } from 'react-router'
import { $api, answerOf, api, type Shapes } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { brokenTests } from '../../broken_tests.tsx'
import { apply, discard, isDraft, keepInSpiteOfConflicts, sendForApproval, takeOut } from '../../draft/store.ts'
import { Button } from '../../ui/button.tsx'
import { Choice } from '../../ui/choice.tsx'
import { CopyId } from '../../ui/copy_id.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { Section } from '../../ui/section.tsx'
import { Ago } from '../../ui/time.tsx'
import { isUnusual, UnusualNote } from '../../unusual.tsx'
import { ChangeList } from '../audit/list.tsx'
import { Preview } from '../audit/revert.tsx'
import { useNames } from '../traffic/names.ts'
import { Changes } from './changes.tsx'
import { isOpen, StateOf, useNameOfPerson } from './state.tsx'
import { changesInWords } from './words.ts'

/** The current effect of the change set, its authors and approvers, and the possible actions. */
export function ChangeSetDetail({ id }: { id: string }) {
  const path = { params: { path: { id } } }
  const found = $api.useQuery('get', '/change_sets/{id}', path, { refetchInterval: 5_000, retry: false })
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const client = useQueryClient()
  // Kept outside the part that depends on the content, because it explains why the content has changed.
  const acting = useMutation({
    mutationFn: ({ act }: Act) => act(),
    onSettled: () => client.invalidateQueries(),
  })
  const { data } = found
  const words = useWords(data)
  return (
    <>
      <PageHeader
        title={data ? (data.description ?? words.title) : id}
        parent={{ to: '/change-sets', name: 'Change sets' }}
        status={data && <StateOf changeSet={data} />}
        meta={<CopyId id={id} />}
      />
      <Loaded query={found} lines={6}>
        {(changeSet) => (
          <>
            <People changeSet={changeSet} />
            {isOpen(changeSet) ? (
              <Open key={changeSet.content_sha256} changeSet={changeSet} words={words.each} acting={acting} />
            ) : (
              <Changes changes={changeSet.changes} words={words.each} onTakeOut={undefined} isPending={false} />
            )}
            {isAdmin && (
              <Section title="History">
                <ChangeList resourceId={id} />
              </Section>
            )}
          </>
        )}
      </Loaded>
    </>
  )
}

const previewOf = ({ id, content_sha256 }: Pick<Shapes['ChangeSet'], 'id' | 'content_sha256'>) =>
  queryOptions({
    // The preview depends on the content.
    queryKey: ['post', '/change_sets/{id}/preview', id, content_sha256],
    queryFn: () => answerOf(api.POST('/change_sets/{id}/preview', { params: { path: { id } }, body: {} })),
    retry: false,
  })

const none = { id: '', content_sha256: '', changes: [] }

/** Names of the resources in its changes, as soon as they are loaded. */
function useWords(changeSet: Shapes['ChangeSet'] | undefined) {
  const names = useNames()
  const preview = useQuery({
    ...previewOf(changeSet ?? none),
    enabled: changeSet !== undefined && isOpen(changeSet),
  }).data
  return changesInWords((changeSet ?? none).changes, preview?.differences ?? [], names)
}

function People({ changeSet }: { changeSet: Shapes['ChangeSet'] }) {
  const person = useNameOfPerson()
  const { author_id, created_at, approved_by_id, approved_at, applied_by_id, applied_at } = changeSet
  const { withdrawn_by_id, withdrawn_at } = changeSet
  const steps = [
    { did: 'Made', by: author_id, at: created_at },
    { did: 'Approved', by: approved_by_id, at: approved_at },
    { did: 'Applied', by: applied_by_id, at: applied_at },
    { did: 'Withdrawn', by: withdrawn_by_id, at: withdrawn_at },
  ]
  return (
    <ul className="plain-list" aria-label="People">
      {steps.map(
        ({ did, by, at }) =>
          by !== null &&
          at !== null && (
            <li key={did}>
              {did} by {person(by)} <Ago at={at} />
            </li>
          ),
      )}
    </ul>
  )
}

/** Trial period. Unconfirmed changes are undone at its end. */
const trials = [
  { value: '0', label: 'For good' },
  { value: '600', label: 'For 10 minutes, unless confirmed' },
  { value: '3600', label: 'For an hour, unless confirmed' },
] as const
type Trial = (typeof trials)[number]['value']

type Act = { name: string; act: () => Promise<unknown> }
type Acting = UseMutationResult<unknown, Error, Act>
type OpenProps = { changeSet: Shapes['ChangeSet']; acting: Acting }

/** Names each button, so that only the pressed one is pending. */
const buttonsOf = (acting: Acting) =>
  function button(name: string, act: Act['act'], more: { kind?: 'primary'; isDisabled?: boolean } = {}) {
    const isPending = acting.isPending && acting.variables.name === name
    return (
      <Button {...more} isPending={isPending} onPress={() => acting.mutate({ name, act })}>
        {name}
      </Button>
    )
  }

function Open({ changeSet, words, acting }: OpenProps & { words: readonly string[] }) {
  const { changes, author_id } = changeSet
  const caller = $api.useQuery('get', '/caller').data
  const mayChange = useMayChange()
  const preview = useQuery(previewOf(changeSet))
  const button = buttonsOf(acting)
  const hasConflicts = (preview.data?.conflicts.length ?? 0) > 0
  const take = (index: number) => acting.mutate({ name: 'Take out', act: () => takeOut(changeSet, index) })
  return (
    <>
      <Changes
        changes={changes}
        words={words}
        onTakeOut={author_id === caller?.owner_id && mayChange ? take : undefined}
        isPending={acting.isPending}
      />
      <Section title="What it would change now">
        <Loaded query={preview} lines={4}>
          {(shown) => <Preview preview={shown} />}
        </Loaded>
        {hasConflicts && mayChange && (
          <div className="actions start">
            {button('Make these changes to what it is now', () => keepInSpiteOfConflicts(changeSet))}
          </div>
        )}
        {caller && mayChange && (
          <Actions
            changeSet={changeSet}
            caller={caller}
            acting={acting}
            // The person decides about what the preview has shown.
            isSeen={preview.isSuccess}
            hasConflicts={hasConflicts}
          />
        )}
      </Section>
    </>
  )
}

type ActionsProps = OpenProps & { caller: Shapes['Caller']; isSeen: boolean; hasConflicts: boolean }

function Actions({ changeSet, caller, acting, isSeen, hasConflicts }: ActionsProps) {
  const { id, state, content_sha256 } = changeSet
  const path = { params: { path: { id } } }
  const navigate = useNavigate()
  const [trial, setTrial] = useState<Trial>('0')
  const button = buttonsOf(acting)
  const isOwn = changeSet.author_id === caller.owner_id
  const isMyDraft = isOwn && isDraft(changeSet)
  const isWaiting = state === 'waiting'
  const primary = { kind: 'primary', isDisabled: !isSeen || hasConflicts } as const
  const applyNow = (query: { confirm?: true } = {}) => apply(changeSet, query, Number(trial))
  return (
    <>
      {acting.isError && (
        <Refused
          error={acting.error}
          retry={() => acting.mutate(acting.variables)}
          onConfirm={() => acting.mutate({ name: 'Apply', act: () => applyNow({ confirm: true }) })}
          isPending={acting.isPending}
        />
      )}
      {!isWaiting && <Choice label="Apply" value={trial} onChange={setTrial} options={trials} />}
      <div className="actions start">
        {!isWaiting && button('Apply', () => applyNow(), primary)}
        {isWaiting && isMyDraft && button('Send for approval', () => sendForApproval(changeSet), primary)}
        {isWaiting &&
          !isDraft(changeSet) &&
          caller.role === 'admin' &&
          button(
            'Approve',
            () => answerOf(api.POST('/change_sets/{id}/approve', { ...path, body: { content_sha256 } })),
            { kind: 'primary', isDisabled: !isSeen },
          )}
        {isMyDraft
          ? button('Discard draft', async () => {
              await discard(id)
              navigate('/change-sets')
            })
          : button('Withdraw', () => answerOf(api.POST('/change_sets/{id}/withdraw', { ...path, body: {} })))}
      </div>
      {isWaiting && isDraft(changeSet) && (
        <p className="soft">
          {isOwn
            ? 'Changes of this kind need the approval of another admin. Send the draft when it is complete.'
            : 'Its author is still working on it. It can be approved once they have sent it.'}
        </p>
      )}
    </>
  )
}

type RefusedProps = { error: unknown; retry: () => void; onConfirm: () => void; isPending: boolean }

/** Why it failed, with ways to proceed. */
function Refused({ error, retry, onConfirm, isPending }: RefusedProps) {
  if (isUnusual(error)) return <UnusualNote error={error} onConfirm={onConfirm} isPending={isPending} />
  return brokenTests(error, retry, isPending) ?? <ProblemNote error={error} />
}
