import { useMutation, useQueryClient } from '@tanstack/react-query'
import { $api, answerOf, api, type Shapes } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { CopyId } from '../../ui/copy_id.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { Section } from '../../ui/section.tsx'
import { Ago } from '../../ui/time.tsx'
import { ChangeList } from '../audit/list.tsx'
import { Preview } from '../audit/revert.tsx'
import { isOpen, nameOf, StateOf, useNameOfPerson } from './state.tsx'

/** What it would change now, who made and approved it, and what can be done with it. */
export function ChangeSetDetail({ id }: { id: string }) {
  const path = { params: { path: { id } } }
  const found = $api.useQuery('get', '/change_sets/{id}', path, { refetchInterval: 5_000 })
  const { data } = found
  return (
    <>
      <PageHeader
        title={data ? nameOf(data) : id}
        parent={{ to: '/change-sets', name: 'Change sets' }}
        status={data && <StateOf changeSet={data} />}
        meta={<CopyId id={id} />}
      />
      <Loaded query={found} lines={6}>
        {(changeSet) => (
          <>
            <People changeSet={changeSet} />
            {isOpen(changeSet) && <Open key={changeSet.content_sha256} changeSet={changeSet} />}
            <Section title="History">
              <ChangeList resourceId={id} />
            </Section>
          </>
        )}
      </Loaded>
    </>
  )
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

type Verb = 'approve' | 'apply' | 'withdraw'

function Open({ changeSet }: { changeSet: Shapes['ChangeSet'] }) {
  const { id, state, content_sha256 } = changeSet
  const path = { params: { path: { id } } }
  const client = useQueryClient()
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const preview = $api.useQuery('post', '/change_sets/{id}/preview', { ...path, body: {} }, { retry: false })
  const acting = useMutation({
    mutationFn: (verb: Verb) =>
      verb === 'approve'
        ? answerOf(api.POST('/change_sets/{id}/approve', { ...path, body: { content_sha256 } }))
        : verb === 'apply'
          ? answerOf(api.POST('/change_sets/{id}/apply', { ...path, body: {} }))
          : answerOf(api.POST('/change_sets/{id}/withdraw', { ...path, body: {} })),
    onSettled: () => client.invalidateQueries(),
  })
  const isActing = (verb: Verb) => acting.isPending && acting.variables === verb
  return (
    <Section title="What it would change now">
      <Loaded query={preview} lines={4}>
        {(shown) => <Preview preview={shown} />}
      </Loaded>
      {acting.isError && <ProblemNote error={acting.error} />}
      <div className="actions start">
        {state === 'waiting' && isAdmin && (
          // What is approved is what the preview has shown.
          <Button
            kind="primary"
            isDisabled={!preview.isSuccess}
            isPending={isActing('approve')}
            onPress={() => acting.mutate('approve')}
          >
            Approve
          </Button>
        )}
        {state !== 'waiting' && (
          <Button kind="primary" isPending={isActing('apply')} onPress={() => acting.mutate('apply')}>
            Apply
          </Button>
        )}
        <Button isPending={isActing('withdraw')} onPress={() => acting.mutate('withdraw')}>
          Withdraw
        </Button>
      </div>
    </Section>
  )
}
