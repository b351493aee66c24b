//! Modules as the engine's own code: read once, so that no call reads its sources again. Knows no call.

use rquickjs::loader::Loader;
use rquickjs::loader::bundle::Bundle;
use rquickjs::module::Declared;
use rquickjs::{Ctx, Function, Module, Promise, WriteOptions};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The code of modules, by their names. The engine runs it in its place, so it stays until the process ends: the shims are read
/// once, and each version of a tool once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Code(&'static [(&'static str, &'static [u8])]);

/// The code of each module that is read while code is gathered.
pub(crate) type Gathered = BTreeMap<String, Vec<u8>>;

impl Code {
    pub(crate) fn keep(gathered: Gathered) -> Self {
        let modules: Vec<(&'static str, &'static [u8])> = gathered
            .into_iter()
            .map(|(name, code)| (&*name.leak(), &*code.leak()))
            .collect();
        Self(modules.leak())
    }

    pub(crate) fn module<'js>(
        self,
        ctx: &Ctx<'js>,
        name: &str,
    ) -> Option<rquickjs::Result<Module<'js, Declared>>> {
        let is_known = self.0.iter().any(|(known, _)| *known == name);
        is_known.then(|| Bundle(self.0).load(ctx, name, None))
    }
}

/// A module's code, with its lines and without its text.
pub(crate) fn written(module: &Module<'_, Declared>) -> rquickjs::Result<Vec<u8>> {
    module.write(WriteOptions {
        strip_source: true,
        ..WriteOptions::default()
    })
}

/// The shims, each of which exports a function.
#[derive(Clone, Copy)]
pub(crate) enum Shim {
    Core,
    Web,
    Locale,
}

impl Shim {
    fn name(self) -> &'static str {
        match self {
            Self::Core => "windlass:core",
            Self::Web => "windlass:web",
            Self::Locale => "windlass:locale",
        }
    }

    fn source(self) -> &'static str {
        match self {
            Self::Core => include_str!("js/core.js"),
            Self::Web => include_str!("js/web.js"),
            Self::Locale => include_str!("js/locale.js"),
        }
    }

    pub(crate) fn evaluate<'js>(self, ctx: &Ctx<'js>) -> rquickjs::Result<Function<'js>> {
        static CODE: OnceLock<Code> = OnceLock::new();
        let known = CODE.get().and_then(|code| code.module(ctx, self.name()));
        let module = match known {
            Some(module) => module?,
            None => {
                let mut gathered = Gathered::new();
                for shim in [Self::Core, Self::Web, Self::Locale] {
                    let module = Module::declare(ctx.clone(), shim.name(), shim.source())?;
                    gathered.insert(shim.name().to_owned(), written(&module)?);
                }
                let code = CODE.get_or_init(|| Code::keep(gathered));
                code.module(ctx, self.name())
                    .unwrap_or_else(|| Module::declare(ctx.clone(), self.name(), self.source()))?
            }
        };
        let (module, evaluated): (_, Promise<'js>) = module.eval()?;
        evaluated.finish::<()>()?;
        module.namespace()?.get("default")
    }
}
