import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback, useMemo, useState } from 'react'
import { Link, useNavigate } from 'react-router'
import { $api, answerOf, api } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import {
  applied,
  type Draft,
  emptyDraft,
  isEmpty,
  type Rule,
  withAdded,
  withChanged,
  withRemoved,
} from '../../rules.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { CopyId } from '../../ui/copy_id.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { PageMenu } from '../../ui/more_menu.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { useUnsaved } from '../../ui/unsaved.tsx'
import { ChangeList } from '../audit/list.tsx'
import { Describe } from '../describe.tsx'
import { DraftBar } from './draft_bar.tsx'
import { evidenceOf } from './evidence.tsx'
import { ImportList } from './import.tsx'
import { rulesOf } from './read.ts'
import { Review } from './review.tsx'
import { RuleForm } from './rule_form.tsx'
import { RuleTable } from './rule_table.tsx'
import { StateOfUses, UsesTable, useUsesOf } from './uses.tsx'

const none: Rule[] = []
const count = new Intl.NumberFormat('en')
type Open = 'add' | 'import' | 'review' | 'describe' | 'delete'

export function PolicyDetail({ id }: { id: string }) {
  const policies = useQuery(queries.policies())
  const rules = useQuery(rulesOf(id))
  const evidence = useQuery(evidenceOf(id)).data
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const uses = useUsesOf()?.(id)
  const [draft, setDraft] = useState<Draft>(emptyDraft)
  const unsaved = useUnsaved(!isEmpty(draft))
  const [open, setOpen] = useState<Open>()
  const [changed, setChanged] = useState<Rule>()
  const close = () => setOpen(undefined)
  const policy = policies.data?.find((candidate) => candidate.id === id)
  const name = policy?.description ?? id
  const current = rules.data ?? none
  const remove = useCallback(
    (gone: readonly Rule[]) => setDraft((before) => withRemoved(before, current, gone)),
    [current],
  )
  const restore = useCallback((rule: Rule) => setDraft((before) => withAdded(before, current, [rule])), [current])
  const drafted = useMemo(() => applied(current, draft), [current, draft])
  return (
    <>
      <PageHeader
        title={name}
        parent={{ to: '/policies', name: 'IP policies' }}
        status={uses && <StateOfUses uses={uses} />}
        meta={
          <>
            {rules.data && <span>{current.length === 1 ? '1 rule' : `${count.format(current.length)} rules`}</span>}
            {uses && uses.length > 0 && (
              <span>
                Used in <Link to="?tab=uses">{uses.length === 1 ? '1 place' : `${uses.length} places`}</Link>
              </span>
            )}
            {policy?.description && <CopyId id={id} />}
          </>
        }
      >
        <Button onPress={() => setOpen('import')}>Import list</Button>
        <Button kind="primary" icon="plus" onPress={() => setOpen('add')}>
          Add rule
        </Button>
        <PageMenu
          groups={() => [
            {
              entries: [
                { label: 'Rename', icon: 'edit', onAction: () => setOpen('describe') },
                { label: 'Delete policy…', icon: 'trash', isDanger: true, onAction: () => setOpen('delete') },
              ],
            },
          ]}
        />
      </PageHeader>
      <Tabs
        label={name}
        tabs={[
          {
            id: 'rules',
            title: 'Rules',
            count: rules.data?.length,
            children: (
              <Loaded query={rules} lines={10}>
                {() => (
                  <RuleTable
                    name={name}
                    rules={drafted}
                    draft={draft}
                    evidence={evidence}
                    onChange={setChanged}
                    onRemove={remove}
                    onRestore={restore}
                  />
                )}
              </Loaded>
            ),
          },
          { id: 'uses', title: 'Used by', count: uses?.length, children: uses && <UsesTable uses={uses} /> },
          ...(isAdmin ? [{ id: 'history', title: 'History', children: <ChangeList resourceId={id} /> }] : []),
        ]}
      />
      {!isEmpty(draft) && (
        <DraftBar
          policyId={id}
          draft={draft}
          rules={drafted}
          onDiscard={() => setDraft(emptyDraft)}
          onReview={() => {
            // Someone else may have changed them since.
            rules.refetch()
            setOpen('review')
          }}
        />
      )}
      {open === 'add' && <RuleForm onSave={(rule) => setDraft(withAdded(draft, current, [rule]))} onClose={close} />}
      {changed && (
        <RuleForm
          rule={changed}
          onSave={(rule) => setDraft(withChanged(draft, current, changed, rule))}
          onClose={() => setChanged(undefined)}
        />
      )}
      {open === 'import' && <ImportList current={current} draft={draft} onDraft={setDraft} onClose={close} />}
      {open === 'review' && (
        <Review
          policyId={id}
          name={name}
          rules={current}
          after={drafted}
          draft={draft}
          onDraft={setDraft}
          onSaved={() => {
            setDraft(emptyDraft)
            close()
          }}
          onClose={close}
        />
      )}
      {open === 'describe' && policy && <Describe path="/ip_policies/{id}" what={policy} onClose={close} />}
      {open === 'delete' && <DeletePolicy id={id} name={name} onDeleted={unsaved.settle} onClose={close} />}
    </>
  )
}

type DeleteProps = { id: string; name: string; onDeleted: () => void; onClose: () => void }

function DeletePolicy({ id, name, onDeleted, onClose }: DeleteProps) {
  const navigate = useNavigate()
  const client = useQueryClient()
  return (
    <Confirm
      canDraft
      title={`Delete ${name}?`}
      typeToConfirm={name}
      action="Delete policy"
      act={() => answerOf(api.DELETE('/ip_policies/{id}', { params: { path: { id } } }))}
      onDone={async () => {
        // Refreshes only the list, because this policy's rules no longer exist.
        await client.invalidateQueries({ queryKey: queries.policies().queryKey })
        onDeleted()
        navigate('/policies')
      }}
      onClose={onClose}
    >
      <p>This also deletes its rules. A policy that is still in use cannot be deleted; you will see what uses it.</p>
    </Confirm>
  )
}
