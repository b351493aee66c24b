//! Pictures without a service: drawings of an empty frame in the requested shape. Their look shows that they depict nothing of
//! the prompt; two prompts differ by their colours alone.

use tiny_skia::{
    Color, FillRule, GradientStop, LinearGradient, Paint, PathBuilder, Pixmap, Point, Rect, Shader,
    SpreadMode, Stroke, Transform,
};
use windlass_contract::handler::{
    AspectRatio, CapabilityFuture, GeneratedImages, ImageRequest, Images, ServiceError,
};

/// Pixels of the longer side.
const SIDE: u32 = 768;
/// The same as a length.
const LENGTH: f32 = 768.0;

/// Draws placeholders.
#[derive(Default)]
pub struct PlaceholderImages(());

impl Images for PlaceholderImages {
    fn generate(
        &self,
        request: ImageRequest,
    ) -> CapabilityFuture<Result<GeneratedImages, ServiceError>> {
        let numbers = 0..u64::try_from(request.count).unwrap_or(u64::MAX);
        let drawn = numbers.map(|number| drawn(&request.prompt, number, request.aspect_ratio));
        let pictures: Option<Vec<Vec<u8>>> = drawn.collect();
        let made = pictures.map(|pictures| GeneratedImages {
            pictures,
            service: "placeholder".to_owned(),
            is_placeholder: true,
            shortfall: None,
        });
        let broken = || ServiceError::Unfit("the placeholder cannot be drawn".to_owned());
        Box::pin(std::future::ready(made.ok_or_else(broken)))
    }
}

fn size(aspect_ratio: AspectRatio) -> (u32, u32) {
    let shorter = |parts: u32, of: u32| SIDE * parts / of;
    match aspect_ratio {
        AspectRatio::Square => (SIDE, SIDE),
        AspectRatio::Landscape => (SIDE, shorter(3, 4)),
        AspectRatio::Portrait => (shorter(3, 4), SIDE),
        AspectRatio::Wide => (SIDE, shorter(9, 16)),
        AspectRatio::Tall => (shorter(9, 16), SIDE),
    }
}

/// Draws the picture, as PNG.
fn drawn(prompt: &str, number: u64, aspect_ratio: AspectRatio) -> Option<Vec<u8>> {
    let (width, height) = size(aspect_ratio);
    let mut pixmap = Pixmap::new(width, height)?;
    let rect = Rect::from_xywh(0.0, 0.0, length(width), length(height))?;
    let [first, second] = colours(prompt, number);
    let stops = vec![
        GradientStop::new(0.0, first),
        GradientStop::new(1.0, second),
    ];
    let shader = LinearGradient::new(
        Point::from_xy(0.0, 0.0),
        Point::from_xy(rect.right(), rect.bottom()),
        stops,
        SpreadMode::Pad,
        Transform::identity(),
    )?;
    let background = Paint {
        shader,
        ..Paint::default()
    };
    pixmap.fill_rect(rect, &background, Transform::identity(), None);
    frame(&mut pixmap, rect)?;
    sign(&mut pixmap, rect)?;
    pixmap.encode_png().ok()
}

/// A frame with both diagonals: the usual sign of layouts for a missing picture.
fn frame(pixmap: &mut Pixmap, rect: Rect) -> Option<()> {
    let inset = LENGTH / 32.0;
    let inner = rect.inset(inset, inset)?;
    let mut path = PathBuilder::new();
    path.push_rect(inner);
    path.move_to(inner.left(), inner.top());
    path.line_to(inner.right(), inner.bottom());
    path.move_to(inner.right(), inner.top());
    path.line_to(inner.left(), inner.bottom());
    let stroke = Stroke {
        width: LENGTH / 128.0,
        ..Stroke::default()
    };
    let white = paint(Color::from_rgba8(255, 255, 255, 160));
    pixmap.stroke_path(
        &path.finish()?,
        &white,
        &stroke,
        Transform::identity(),
        None,
    );
    Some(())
}

/// A disc in the middle with a mountain and a sun, the sign for a missing picture.
fn sign(pixmap: &mut Pixmap, rect: Rect) -> Option<()> {
    let (x, y) = (rect.width() / 2.0, rect.height() / 2.0);
    let radius = rect.width().min(rect.height()) / 6.0;
    let mut fill = |path: Option<tiny_skia::Path>, color: Color| {
        let paint = paint(color);
        pixmap.fill_path(
            &path?,
            &paint,
            FillRule::Winding,
            Transform::identity(),
            None,
        );
        Some(())
    };
    let white = Color::from_rgba8(255, 255, 255, 230);
    let grey = Color::from_rgba8(90, 98, 110, 255);
    fill(PathBuilder::from_circle(x, y, radius), white)?;
    let mut mountains = PathBuilder::new();
    for (from, top, to, height) in [(-0.6, -0.2, 0.3, 0.3), (-0.1, 0.25, 0.6, 0.05)] {
        mountains.move_to(x + from * radius, y + 0.45 * radius);
        mountains.line_to(x + top * radius, y - height * radius);
        mountains.line_to(x + to * radius, y + 0.45 * radius);
        mountains.close();
    }
    fill(mountains.finish(), grey)?;
    let sun = PathBuilder::from_circle(x + 0.3 * radius, y - 0.35 * radius, 0.14 * radius);
    fill(sun, grey)
}

fn paint(color: Color) -> Paint<'static> {
    Paint {
        shader: Shader::SolidColor(color),
        anti_alias: true,
        ..Paint::default()
    }
}

/// Two dark colours by the prompt (FNV-1a), so that white shows on both.
fn colours(prompt: &str, number: u64) -> [Color; 2] {
    let begin = 0xCBF2_9CE4_8422_2325 ^ number;
    let bytes = prompt.bytes().chain(number.to_le_bytes());
    let hash = bytes.fold(begin, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    let [red, green, blue, other_red, other_green, other_blue, ..] = hash.to_le_bytes();
    let dark = |red: u8, green: u8, blue: u8| {
        Color::from_rgba8(40 + red / 3, 40 + green / 3, 40 + blue / 3, 255)
    };
    [
        dark(red, green, blue),
        dark(other_red, other_green, other_blue),
    ]
}

/// Pixels as the drawing counts them: few enough that none is lost.
fn length(pixels: u32) -> f32 {
    pixels.min(SIDE) as f32
}
