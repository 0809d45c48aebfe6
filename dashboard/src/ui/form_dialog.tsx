import { useMutation } from '@tanstack/react-query'
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import { SentForApproval } from '../api/problem.ts'
import { useRefresh } from '../api/queries.ts'
import { brokenTests } from '../broken_tests.tsx'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { FormFieldsContext, placesOf } from './form_fields.tsx'
import { ProblemNote } from './problem.tsx'
import { useUnsaved } from './unsaved.tsx'

type Props<Result, Variant> = {
  title: string
  wide?: boolean
  tall?: boolean
  children: ReactNode
  /** Label of the button: a verb and its object. */
  action: string
  kind?: 'primary' | 'danger'
  cancel?: string
  /** Further buttons, before the usual two. */
  extra?: ReactNode
  isDirty?: boolean
  /** False while there is nothing to save. */
  isReady?: boolean
  /** Set while data for the decision is loading: the button can be focused but not pressed. */
  isWaiting?: boolean
  /** The change can be added to the person's draft instead of being saved. */
  canDraft?: boolean
  /** Default: closes the dialog. */
  onDrafted?: (() => void) | undefined
  /** `variant`: how to save after the first attempt was refused and the person chose how to proceed. */
  save: (variant?: Variant) => Promise<Result>
  onSaved: (result: Result) => void | Promise<void>
  /** `isSent`: the change waits for approval. */
  onClose: (isSent: boolean) => void
  /** Explains a problem that concerns no input. */
  explain?: (error: unknown, retry: (variant: Variant) => void, isPending: boolean) => ReactNode
}

/**
 * The common form dialog: saves once at a time, shows API errors at the input that they name, and asks before it
 * discards input. Inputs register under their API names.
 */
export function FormDialog<Result, Variant = never>(props: Props<Result, Variant>) {
  const {
    title,
    wide,
    tall,
    children,
    action,
    kind = 'primary',
    cancel = 'Cancel',
    extra,
    onClose,
    onSaved,
    explain,
  } = props
  const { isDirty = false, isReady = true, isWaiting = false, canDraft, onDrafted = () => onClose(true) } = props
  const form = useRef<HTMLFormElement>(null)
  const draft = useUnsaved(isDirty)
  const [labels] = useState(() => new Map<string, string>())
  const isNewlyRefused = useRef(false)
  const [errors, setErrors] = useState<Readonly<Record<string, string>>>({})
  const refresh = useRefresh()
  type Attempt = { variant?: Variant | undefined; toDraft: boolean }
  const saving = useMutation({
    mutationFn: async ({ variant, toDraft }: Attempt) => {
      if (!toDraft) return { result: await props.save(variant) }
      const { addToDraft } = await import('../draft/store.ts')
      await addToDraft(() => props.save(variant))
      await refresh('/change_sets')
      return undefined
    },
    onMutate: () => setErrors({}),
    onError: (error) => {
      // The change set keeps the input.
      if (error instanceof SentForApproval) draft.settle()
      const places = placesOf(error, labels) ?? []
      isNewlyRefused.current = places.length > 0
      setErrors(Object.fromEntries(places.map(({ name, text }) => [name, text])))
    },
    onSuccess: (saved) => {
      draft.settle()
      if (saved) return onSaved(saved.result)
      return onDrafted()
    },
  })
  useEffect(() => {
    // Once per attempt: correcting one of several fields must not move the focus to another.
    if (!isNewlyRefused.current || Object.keys(errors).length === 0) return
    isNewlyRefused.current = false
    const wrong = form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')
    // Opens a collapsed section, whose inputs cannot be focused.
    wrong?.closest('details')?.setAttribute('open', '')
    wrong?.focus()
  }, [errors])
  const fields = useMemo(
    () => ({
      labels,
      errors,
      clear: (name: string) => setErrors(({ [name]: _, ...others }) => others),
    }),
    [labels, errors],
  )
  const isDrafting = saving.isPending && saving.variables.toDraft
  const isSent = saving.error instanceof SentForApproval
  const close = () => {
    // The result of the save is not known yet.
    if (!saving.isPending) draft.close(() => onClose(isSent))
  }
  const isElsewhere = saving.isError && placesOf(saving.error, labels) === undefined
  const note = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (isElsewhere) note.current?.scrollIntoView({ block: 'nearest' })
  }, [isElsewhere])
  const problem = isElsewhere && (
    <div ref={note}>
      {brokenTests(saving.error, () => saving.variables && saving.mutate(saving.variables), saving.isPending) ??
        explain?.(
          saving.error,
          (variant) => saving.mutate({ variant, toDraft: saving.variables?.toDraft ?? false }),
          saving.isPending,
        ) ?? <ProblemNote error={saving.error} />}
    </div>
  )
  return (
    <Dialog title={title} onClose={close} wide={wide} tall={tall}>
      <form
        ref={form}
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          // React bubbles events of a nested dialog to the form that opened it.
          event.stopPropagation()
          if (isReady && !isWaiting && !saving.isPending) saving.mutate({ toDraft: false })
        }}
      >
        <FormFieldsContext value={fields}>{children}</FormFieldsContext>
        {tall && problem}
        <div className="actions">
          {extra}
          <Button isDisabled={saving.isPending} onPress={close}>
            {isSent ? 'Close' : cancel}
          </Button>
          {!isSent && canDraft && (
            <Button
              isDisabled={!isReady || isWaiting || (saving.isPending && !isDrafting)}
              isPending={isDrafting}
              onPress={() => saving.mutate({ toDraft: true })}
            >
              Add to draft
            </Button>
          )}
          {!isSent && (
            <Button
              kind={kind}
              type="submit"
              isDisabled={!isReady || isDrafting}
              isPending={isWaiting || saving.isPending}
            >
              {action}
            </Button>
          )}
        </div>
        {/* Below the buttons, so that they do not move away from the pointer. */}
        {!tall && problem}
      </form>
    </Dialog>
  )
}
